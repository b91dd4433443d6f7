#!/usr/bin/env bash
# Does with jobd.sh what its arguments say, as all drivers here do: see driver_test.go.
set -euo pipefail
client=$CLIENTS/jobd.sh
if [ "$1" != enqueue ]; then
  exec "$client" "$@"
fi
[ "$2" = commit ] && end=COMMIT || end=ROLLBACK
{
  echo "START TRANSACTION;"
  printf "INSERT INTO orders (text) VALUES (0x%s);\n" "$(printf %s "$5" | od -An -v -tx1 | tr -d ' \n')"
  "$client" insert "$3" "status=$4" "payload=$5"
  echo "SELECT LAST_INSERT_ID(); $end;"
} | MYSQL_PWD=$APP_PASSWORD mariadb --no-defaults --default-character-set=utf8mb4 --protocol=tcp -N \
  -h "$APP_HOST" -P "$APP_PORT" -u "$APP_USER" "$APP_DATABASE"
