#!/usr/bin/env bash
# Puts MySQL itself (Debian's unstable suite carries it, the stable ones do not)
# into a folder of its own and prints that folder's path on stdout; all else goes to stderr.
#
#   tools/mysql-chroot.sh [DIR]
#
# DIR defaults to ${XDG_CACHE_HOME:-$HOME/.cache}/jobd/mysql-sid. A finished one is
# used again; delete it to fetch a newer MySQL. The package mirror is the one in the machine's own
# apt sources, or $JOBD_TEST_MIRROR. Needs root (debootstrap and chroot do), about 800 MB and a minute.
set -euo pipefail

root=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/jobd/mysql-sid}

die() { echo "mysql-chroot: $*" >&2; exit 1; }

mirror() {
  apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
    awk -F'|' '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

if [ -e "$root/.complete" ]; then
  echo "$root"
  exit 0
fi

[ "$(id -u)" = 0 ] || die "debootstrap and chroot need root: run make test-mysql as root"
command -v apt-get >/dev/null || die "apt-get not found: this needs a Debian machine"
if ! command -v debootstrap >/dev/null; then
  { apt-get update && apt-get install -y --no-install-recommends debootstrap; } >&2
fi
from=${JOBD_TEST_MIRROR:-$(mirror)}
[ -n "$from" ] || { apt-get update >&2; from=$(mirror); }
[ -n "$from" ] || die "no Debian mirror in the machine's apt sources: set JOBD_TEST_MIRROR=URL"

# Built beside its final place and renamed, so that a run cut short leaves nothing that looks finished.
mkdir -p "$(dirname "$root")"
building=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf --one-file-system "$building"' EXIT
chmod 0755 "$building"
debootstrap --variant=minbase --include=mysql-server-core sid "$building" "$from" >&2 ||
  die "debootstrap failed: see above, and debootstrap/debootstrap.log"
rm -rf "$building/var/cache/apt/archives" "$building/var/lib/apt/lists"
chroot "$building" mysqld --version >&2
touch "$building/.complete"
rm -rf --one-file-system "$root"
mv "$building" "$root"
trap - EXIT
echo "$root"
