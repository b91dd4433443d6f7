#!/bin/sh
# Makes bin/overlay.json for go test -overlay: a Go runtime of this toolchain in which nothing is random. What
# select, maps and timers of one moment draw comes from one sequence, which each bubble begins anew, and no
# goroutine is preempted or passed over. So a simulation on one thread (tests/simulation) is the same each time.
set -eu
cd "$(dirname "$0")/.."
from=$(go env GOROOT)/src/runtime
into=$PWD/bin/overlay
mkdir -p "$into"

# change FILE EXPRESSION...: every expression must change something.
change() {
  file=$1
  shift
  cp "$from/$file.go" "$into/$file"
  for expression; do
    sed "$expression" "$into/$file" > "$into/new"
    ! cmp -s "$into/$file" "$into/new" || { echo "$file: the toolchain is another one: $expression" >&2; exit 1; }
    mv "$into/new" "$into/$file"
  done
}

change rand \
  's/^func rand() uint64 {$/&\n\treturn simulated()/' \
  's/^\tglobalRand.state.Init(\*seed)$/\t*seed = [32]byte{1}\n&/'
cat >> "$into/rand" <<'END'

var simulatedState uint64

// simulated is splitmix64.
//
//go:nosplit
func simulated() uint64 {
	simulatedState += 0x9e3779b97f4a7c15
	z := simulatedState
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
END
change select 's/cheaprandn(/randn(/'
change time 's/= cheaprand()/= uint32(rand())/'
change proc \
  's/^const forcePreemptNS = .*/const forcePreemptNS = 1 << 60/' \
  's/pp.schedtick%61 == 0/false/'
change synctest 's/^func synctestRun(f func()) {$/&\n\tsimulatedState = 0/'

{
  echo '{"Replace": {'
  between=
  for file in rand select time proc synctest; do
    echo "$between\"$from/$file.go\": \"$into/$file\""
    between=,
  done
  echo '}}'
} > bin/overlay.json
