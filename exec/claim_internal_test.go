package exec

import "testing"

// Regression: what fails for several targets is divided, whatever the error's number says.
func TestTargetsWhoseClaimsHaveFailedAreClaimedForOneByOne(t *testing.T) {
	t.Parallel()
	w := New(Config{Targets: map[string]int{"a": 1, "b": 1, "c": 1}})
	w.PollAll()
	if r := w.nextRound(); len(r.room) != 3 {
		t.Fatalf("nothing has failed: claimed for %v together, want all", r.room)
	}
	w.targets["a"].trouble.alone, w.targets["b"].trouble.alone = true, true
	alone := make(map[string]bool)
	for range 3 {
		r := w.nextRound()
		for name := range r.room {
			alone[name] = true
		}
		if len(r.room) != 1 {
			t.Errorf("claimed for %v together", r.room)
		}
	}
	if len(alone) != 3 {
		t.Errorf("claimed for %v: each is to have its turn", alone)
	}
}
