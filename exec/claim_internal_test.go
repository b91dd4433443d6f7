package exec

import "testing"

// Regression: what fails twice for several targets is divided, whatever the error's number says.
func TestTargetsWhoseClaimsHaveFailedTwiceAreClaimedForOneByOne(t *testing.T) {
	t.Parallel()
	w := New(Config{Targets: map[string]int{"a": 1, "b": 1, "c": 1}})
	w.PollAll()
	if r := w.nextRound(); len(r.room) != 3 {
		t.Fatalf("nothing has failed: claimed for %v together, want all", r.room)
	}
	w.targets["a"].trouble.failed, w.targets["b"].trouble.failed = 2, 2
	alone := make(map[string]bool)
	for range 4 {
		r := w.nextRound()
		for name := range r.room {
			alone[name] = true
			w.targets[name].trouble.failed++
		}
		if len(r.room) != 1 {
			t.Errorf("claimed for %v together", r.room)
		}
		if r.room["c"] > 0 {
			w.targets["c"].trouble.failed = 0
		}
	}
	if len(alone) != 3 {
		t.Errorf("claimed for %v: each is to have its turn", alone)
	}
}
