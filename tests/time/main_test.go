package time

import (
	"os"
	"testing"

	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 8) } // most of their time they wait for a second to come

// size is a number that depends on the form: TORTURE=long chooses the long one.
func size[N any](short, inLong N) N {
	if os.Getenv("TORTURE") == "long" {
		return inLong
	}
	return short
}
