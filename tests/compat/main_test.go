package compat

import (
	"flag"
	"testing"

	"jobd/tests/harness"
)

// TestMain lets more tests run at once than there are processors: all of them wait nearly all of
// the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if atOnce := flag.Lookup("test.parallel"); atOnce.Value.String() == atOnce.DefValue {
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err) // the flag is there
		}
	}
	harness.Main(m)
}
