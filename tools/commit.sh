#!/bin/sh
# Says of which commit this checkout is, for what is stamped into the programs.
#
#   tools/commit.sh name    its name, with -modified behind it where tracked files were changed since
#   tools/commit.sh date    when it was made, in UTC, as RFC 3339 has it
#   tools/commit.sh epoch   the same in seconds since 1970, as in SOURCE_DATE_EPOCH
#
# It says nothing where there is no git, or no checkout of it: an unpacked archive of the sources, also
# one that lies in the checkout of something else.
set -eu
cd "$(dirname "$0")/.."
[ -e .git ] && command -v git >/dev/null || exit 0

# Whoever owns the checkout: that it is read by root, say, is no reason to say nothing.
ask() { TZ=UTC git -c safe.directory="$PWD" -c core.fsmonitor= "$@" 2>/dev/null; }

case ${1-} in
  name)
    name=$(ask rev-parse --verify HEAD) || exit 0
    ask diff-index --quiet HEAD -- || { ask update-index -q --refresh >/dev/null; ask diff-index --quiet HEAD -- || name=$name-modified; }
    echo "$name"
    ;;
  date) ask log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd || exit 0 ;;
  epoch) ask log -1 --format=%ct || exit 0 ;;
  *) echo "commit: say what of the commit: name, date or epoch" >&2; exit 2 ;;
esac
