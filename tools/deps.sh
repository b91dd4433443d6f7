#!/usr/bin/env bash
# Installs MariaDB, strace and tmux through apt where they are missing. The tests start servers of
# their own; the one that the package may start on this machine is not touched. With MariaDB
# comes Galera, for the tests with two nodes; strace makes system calls fail; tmux is a terminal
# that tells what it shows.
set -euo pipefail

missing() {
  for program in mariadbd mariadb-install-db mariadb strace tmux; do
    command -v "$program" >/dev/null || return 0
  done
  return 1
}

missing || exit 0
if ! command -v apt-get >/dev/null; then
  echo "deps: MariaDB, strace or tmux is missing and there is no apt-get here: install mariadbd, mariadb-install-db and mariadb (10.6 or newer), strace and tmux" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deps: MariaDB, strace or tmux is missing and installing it needs root: run as root: apt-get update && apt-get install mariadb-server strace tmux" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server mariadb-client strace tmux
if missing; then
  echo "deps: apt installed mariadb-server, strace and tmux, but mariadbd, mariadb-install-db, mariadb, strace or tmux is still not in PATH" >&2
  exit 1
fi
