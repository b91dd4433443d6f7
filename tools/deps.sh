#!/usr/bin/env bash
# Installs MariaDB, faketime, strace, tmux, zsh, fish, mandoc, Python and zstd through apt where they
# are missing.
# The tests start servers of their own; the one that the package may start on this machine is not
# touched. With MariaDB comes Galera, for the tests with two nodes; faketime sets the clock of a
# server; strace makes system calls fail;
# tmux is a terminal that tells what it shows, zsh and fish are shells that complete jobctl there;
# mandoc reads the manual pages; tools/verify.py runs on Python and zstd.
set -euo pipefail

programs="mariadbd mariadb-install-db mariadb faketime strace tmux zsh fish mandoc python3 zstd"
packages="mariadb-server mariadb-client faketime strace tmux zsh fish mandoc python3 zstd"

missing() {
  for program in $programs; do
    command -v "$program" >/dev/null || return 0
  done
  return 1
}

missing || exit 0
if ! command -v apt-get >/dev/null; then
  echo "deps: some of these are missing and there is no apt-get here: $programs; install them: MariaDB 10.6 or newer, Python 3.11 or newer" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deps: some of these are missing and installing them needs root: $programs; run as root: apt-get update && apt-get install $packages" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
# shellcheck disable=SC2086 # packages are words
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
if missing; then
  echo "deps: apt installed $packages, but some of these are still not in PATH: $programs" >&2
  exit 1
fi
