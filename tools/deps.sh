#!/usr/bin/env bash
# Installs MariaDB through apt where it is missing. The tests start servers of
# their own; the one that the package may start on this machine is not touched.
set -euo pipefail

missing() { ! command -v mariadbd >/dev/null || ! command -v mariadb-install-db >/dev/null || ! command -v mariadb >/dev/null; }

missing || exit 0
if ! command -v apt-get >/dev/null; then
  echo "deps: MariaDB is missing and there is no apt-get here: install mariadbd, mariadb-install-db and mariadb (10.6 or newer)" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deps: MariaDB is missing and installing it needs root: run as root: apt-get update && apt-get install mariadb-server" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server mariadb-client
if missing; then
  echo "deps: apt installed mariadb-server, but mariadbd, mariadb-install-db or mariadb is still not in PATH" >&2
  exit 1
fi
