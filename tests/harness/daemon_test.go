package harness

import "testing"

// A process that ends by itself just when the harness loses patience with it is no failure.
func TestEndOfAProcessThatHasEndedMeanwhile(t *testing.T) {
	t.Parallel()
	d := LaunchBinary(t, "/bin/true", t.TempDir()+"/no.conf", "")
	if code := d.ExitCode(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	d.killAll(t)
}
