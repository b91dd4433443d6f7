#!/bin/sh
# Says whether this checkout may be released: nothing in it is changed or unknown to git, and the
# changelog has a heading with a date for the version that the programs say. It changes nothing; each
# thing that is wrong comes with its remedy, exit code 1.
set -eu
cd "$(dirname "$0")/.."

wrong=0
tell() { echo "release: $*" >&2; wrong=1; }

version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' cmd/internal/version/version.go)
[ -n "$version" ] || tell "cmd/internal/version/version.go has no line: const Version = \"x.y.z\""

name=$(tools/commit.sh name)
if [ -z "$name" ]; then
  tell "this is no checkout of git: what is released is a commit"
else
  changes=$(git -c safe.directory="$PWD" status --porcelain | head -n 20)
  [ -z "$changes" ] || tell "the checkout is not as its commit is; commit this, or take it away:
$changes"
  tag=$(git -c safe.directory="$PWD" describe --exact-match --match "v$version" HEAD 2>/dev/null || true)
  [ -n "$tag" ] || [ -n "$changes" ] || echo "release: the commit has no tag yet; afterwards: git tag -a v$version $name" >&2
fi

grep -q "^## \[$(printf %s "$version" | sed 's/\./\\./g')\] - [0-9]\{4\}-[0-9][0-9]-[0-9][0-9]\$" CHANGELOG.md ||
  tell "CHANGELOG.md has no heading \"## [$version] - YYYY-MM-DD\": give [Unreleased] the version and the day"

exit $wrong
