package exec

import (
	"strings"
	"testing"
)

// Parked jobs don't make a target claim without bound, and the operator is told why it does not.
func TestATargetWithManyParkedJobsClaimsNoMore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                  string
		concurrency, prefetch int
		most                  int
	}{
		{"small", 1, 0, mostParked},
		{"with prefetch", 80, 70, 150},
		{"a job of prefetch for each slot", 80, -1, 160},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := New(Config{Targets: map[string]int{"a": test.concurrency}, Prefetch: test.prefetch})
			a := w.targets["a"]
			w.pollNamed("a")
			a.parked = test.most - 1
			if n, why := a.room(test.prefetch), w.why(a, false); n == 0 || why != "" {
				t.Errorf("%d parked: room %d, why %q", a.parked, n, why)
			}
			a.parked++
			if n, why := a.room(test.prefetch), w.why(a, false); n != 0 || !strings.Contains(why, "their rows can't be updated") {
				t.Errorf("%d parked: room %d, why %q", a.parked, n, why)
			}
			if n := a.length(); n != test.most {
				t.Errorf("length %d, want %d", n, test.most)
			}
		})
	}
}
