package operator

import (
	"strings"
	"testing"
)

// Through a master all workers restart, one after the other; what was set by hand
// is as their files say, and the command tells.
func TestTheWholeFleetRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if got := s.jobctl(t, "set-target-concurrency a 7 --yes"); got.code != 0 || got.stdout != "worker node-1: target a has 7 slots\n" {
		t.Fatalf("%+v", got)
	}
	if got := s.jobctl(t, "status"); !strings.Contains(got.stdout, "\ntarget a has 7 slots until the next reload or restart: the configuration says 2 (on node-1)\n") {
		t.Errorf("%+v", got)
	}
	if got := s.jobctl(t, "pause b"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	got := s.jobctl(t, "restart --all --yes")
	lines := strings.Split(got.stdout, "\n")
	if got.code != 0 || len(lines) != 5 ||
		!strings.HasPrefix(lines[0], "worker node-1: process ") || lines[1] != "  target a: 7 slots → 2, as the file says" ||
		!strings.HasPrefix(lines[2], "worker node-2: process ") || lines[3] != "  target b was paused, it is not now" {
		t.Errorf("%+v", got)
	}
	s.run(t, "b", 1)
	s.run(t, "a", 2)
	if got := s.jobctl(t, "journal log --kind requested"); strings.Count(got.stdout, "request=restart") != 2 {
		t.Errorf("%+v", got)
	}
}
