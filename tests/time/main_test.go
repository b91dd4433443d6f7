package time

import (
	"flag"
	"os"
	"testing"

	"jobd/tests/harness"
)

// together is how many tests run at once, if nobody says: most of their time they wait for a second to
// come.
const together = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if !flagGiven("test.parallel") {
		_ = flag.Set("test.parallel", together) // it is there
	}
	harness.Main(m)
}

// long tells the long form from the short one.
func long() bool { return os.Getenv("TORTURE") == "long" }

// size is a number that depends on the form.
func size[N any](short, inLong N) N {
	if long() {
		return inLong
	}
	return short
}
