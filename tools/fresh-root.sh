#!/usr/bin/env bash
# Puts a small Debian 12 into a folder of its own and prints that folder's path on stdout; all else
# goes to stderr. Tests install the packages there, as on a machine that has never seen jobd.
#
#   tools/fresh-root.sh [DIR]
#
# DIR defaults to ${XDG_CACHE_HOME:-$HOME/.cache}/jobd/debian-12-RECIPE, RECIPE being a digest of this
# file. A finished one is used again, so nobody may change it: lay an overlay above it, or copy it.
# In it are what an application beside jobd needs: MariaDB, SQLite, PHP, Python, Node.js with what connects them
# to a database, sudo, procps, and systemd, whose daemons run only where there is an init for them.
# The package mirror is the one in the machine's own apt sources, or $JOBD_TEST_MIRROR. Needs root
# (mmdebstrap and chroot do), about 750 MB and a minute.
set -euo pipefail

recipe=$(sha256sum "$0" | cut -c 1-8)
root=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/jobd/debian-12-$recipe}
packages=mariadb-server,mariadb-client,php-cli,php-mysql,python3,python3-pymysql,nodejs,sqlite3,sudo,procps,systemd

die() { echo "fresh-root: $*" >&2; exit 1; }

mirror() {
  apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
    awk -F'|' '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

finished() {
  [ -e "$root/.complete" ] || return 1
  echo "$root"
}

if finished; then exit 0; fi
[ "$(id -u)" = 0 ] || die "making a root folder and chroot need root: run as root"
command -v apt-get >/dev/null || die "apt-get not found: this needs a Debian machine"

# Of several that ask at once, one builds, and the others wait for it and take what it has built.
mkdir -p "$(dirname "$root")"
exec 9>"$root.lock"
flock 9
if finished; then exit 0; fi

from=${JOBD_TEST_MIRROR:-$(mirror)}
if [ -z "$from" ] || ! command -v mmdebstrap >/dev/null; then
  apt-get update >&2
  command -v mmdebstrap >/dev/null || apt-get install -y --no-install-recommends mmdebstrap >&2
  from=${JOBD_TEST_MIRROR:-$(mirror)}
fi
[ -n "$from" ] || die "no Debian mirror in the machine's apt sources: set JOBD_TEST_MIRROR=URL"

# Built beside its final place and renamed, so that a run cut short leaves nothing that looks finished.
building=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf --one-file-system "$building"' EXIT
mmdebstrap --variant=minbase --include="$packages" --dpkgopt=force-unsafe-io \
  --aptopt='Apt::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  bookworm "$building" "$from" >&2 9>&- || die "mmdebstrap failed: see above"
chmod 0755 "$building"
touch "$building/.complete"
rm -rf --one-file-system "$root"
mv "$building" "$root"
trap - EXIT
echo "$root"
