package daemon

import "testing"

// A restart is one no more when the daemon is to end for good.
func TestEnding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ask                  func(t *testing.T, e *Ending)
		stopping, restarting bool
	}{
		"serving": {func(*testing.T, *Ending) {}, false, false},
		"restart": {func(_ *testing.T, e *Ending) { e.Restart() }, false, true},
		"restart, then stop": {func(t *testing.T, e *Ending) {
			e.Restart()
			if !e.stop() || e.stop() {
				t.Error("the first stop is the first only")
			}
		}, true, false},
		"stop, then restart": {func(_ *testing.T, e *Ending) {
			e.stop()
			e.Restart()
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnding()
			test.ask(t, e)
			if e.Stopping() != test.stopping || e.Restarting() != test.restarting {
				t.Errorf("stopping %v, restarting %v", e.Stopping(), e.Restarting())
			}
		})
	}
}
