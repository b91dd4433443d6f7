#!/usr/bin/env bash
# Installs MariaDB, faketime, strace, tmux, zsh, fish, mandoc, Python, zstd and systemd
# through apt where they are missing; PHP, Node.js and drivers for the tests of the clients; graphviz;
# Prometheus; nginx, Express and php-fpm; gearmand and what speaks with it; and lintian, rpm and
# mmdebstrap, which the packages are tested with.
# The tests start servers of their own; the one that the package may start on this machine is not
# touched. With MariaDB comes Galera, for the tests with two nodes; faketime sets the clock of a
# server; strace makes system calls fail;
# tmux is a terminal that tells what it shows, zsh and fish are shells that complete jobctl there;
# mandoc reads the manual pages; tools/verify.py runs on Python and zstd; systemd-analyze reads units.
set -euo pipefail

programs="mariadbd mariadb-install-db mariadb faketime strace tmux zsh fish mandoc python3 zstd systemd-analyze"
packages="mariadb-server mariadb-client faketime strace tmux zsh fish mandoc python3 zstd systemd tzdata"
# Graphviz draws the pictures of docs, with the letters of Liberation.
programs+=" dot"
packages+=" graphviz fonts-liberation"
# For the clients in examples/clients: the languages, and an application's drivers for a database.
programs+=" php node"
packages+=" php-cli php-mysql python3-pymysql python3-django nodejs node-mysql"
# The loops in examples/launchers, in their languages; Ruby is also that of the page about Rails.
programs+=" ruby perl"
packages+=" ruby perl"
# Prometheus scrapes the daemons, and promtool judges what they tell.
programs+=" prometheus promtool"
packages+=" prometheus"
# The packages: their tests check them by lintian and rpm, and install them in a Debian of their own.
programs+=" lintian rpm mmdebstrap unshare setpriv"
packages+=" lintian rpm mmdebstrap util-linux"
# gearmand, which jobd is compared with and measured beside; its tools, and the libraries of clients and workers.
programs+=" gearmand gearman gearadmin cc"
packages+=" gearman-job-server gearman-tools php-gearman libgearman-client-perl libgearman-dev gcc libc6-dev"
# For arm64 as its argument: what runs programs for that machine on another one.
if [ "${1-}" = arm64 ]; then
  programs+=" qemu-aarch64"
  packages+=" qemu-user"
fi
# For the page as its argument: a browser, and what fetches axe-core.
if [ "${1-}" = browser ]; then
  programs+=" chromium npm"
  packages+=" chromium npm"
fi
# Services that jobs are requests to: nginx, and Express behind it.
programs+=" nginx"
packages+=" nginx-light node-express"
# php-fpm serves jobs that are FastCGI requests; its program has the version of PHP in its name.
packages+=" php-fpm"
# For gearman as its argument: only what make demo-gearman shows.
only=
if [ "${1-}" = gearman ]; then
  only=1 programs="gearman gearadmin" packages="gearman-tools"
fi

missing() {
  for program in $programs; do
    command -v "$program" >/dev/null || return 0
  done
  test -z "$only" || return 1
  test -e /usr/share/zoneinfo/Europe/Berlin || return 0
  php -r 'exit(extension_loaded("mysqli") && extension_loaded("pdo_mysql") ? 0 : 1);' || return 0
  php -r 'exit(extension_loaded("gearman") ? 0 : 1);' || return 0
  perl -MGearman::Client -MGearman::Worker -e 1 2>/dev/null || return 0
  test -e /usr/include/libgearman/gearman.h || return 0
  test -e /usr/share/nodejs/mysql || return 0
  test -e /usr/share/nodejs/express || return 0
  compgen -G '/usr/sbin/php-fpm*' >/dev/null || return 0
  /usr/bin/python3 -c 'import pymysql, django' 2>/dev/null || python3 -c 'import pymysql, django' 2>/dev/null || return 0
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
    echo "deps: some of these are missing and installing them needs root: $programs, croniter for Python; run as root: apt-get update && apt-get install $packages" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
# shellcheck disable=SC2086 # packages are words
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
if missing; then
  echo "deps: apt installed $packages, but some of these are still missing: $programs, croniter for Python" >&2
  exit 1
fi
