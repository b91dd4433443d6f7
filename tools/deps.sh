#!/usr/bin/env bash
# Installs MariaDB, strace, tmux, Python and zstd through apt where they are missing. The tests start
# servers of their own; the one that the package may start on this machine is not touched. With MariaDB
# comes Galera, for the tests with two nodes; strace makes system calls fail; tmux is a terminal
# that tells what it shows; tools/verify.py runs on Python and zstd.
set -euo pipefail

missing() {
  for program in mariadbd mariadb-install-db mariadb strace tmux python3 zstd; do
    command -v "$program" >/dev/null || return 0
  done
  return 1
}

missing || exit 0
if ! command -v apt-get >/dev/null; then
  echo "deps: MariaDB, strace, tmux, Python or zstd is missing and there is no apt-get here: install mariadbd, mariadb-install-db and mariadb (10.6 or newer), strace, tmux, python3 (3.11 or newer) and zstd" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deps: MariaDB, strace, tmux, Python or zstd is missing and installing it needs root: run as root: apt-get update && apt-get install mariadb-server strace tmux python3 zstd" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server mariadb-client strace tmux python3 zstd
if missing; then
  echo "deps: apt installed mariadb-server, strace, tmux, python3 and zstd, but mariadbd, mariadb-install-db, mariadb, strace, tmux, python3 or zstd is still not in PATH" >&2
  exit 1
fi
