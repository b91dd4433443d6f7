package time

import (
	"os"
	"testing"

	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// long tells the long form from the short one.
func long() bool { return os.Getenv("TORTURE") == "long" }

// size is a number that depends on the form.
func size[N any](short, inLong N) N {
	if long() {
		return inLong
	}
	return short
}
