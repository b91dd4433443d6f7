package principal_test

import (
	"testing"

	"jobd/net/principal"
)

// A file that was cut off in its last line gives nobody more than the whole one.
func TestAFileThatIsCutOff(t *testing.T) {
	t.Parallel()
	const whole = "a run * uid:1001 expires=2020-01-01\n"
	for n := 1; n < len(whole)-1; n++ {
		if _, err := principal.Parse([]byte(whole[:n])); err == nil {
			t.Errorf("%q is taken", whole[:n])
		}
	}
}
