package exec

import (
	"testing"
	"time"

	"jobd/exec/board"
)

func TestThePollIntervalIsOffByAFifthAtMost(t *testing.T) {
	t.Parallel()
	w, now := &Worker{}, time.Now()
	if !w.nextPoll(now).IsZero() {
		t.Error("an interval of 0 is none")
	}
	w.PollInterval = 30 * time.Second
	seen := make(map[time.Duration]bool)
	for range 1000 {
		in := w.nextPoll(now).Sub(now)
		if seen[in] = true; in < 24*time.Second || in > 36*time.Second {
			t.Fatalf("next poll in %s", in)
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d different intervals", len(seen))
	}
}

// Regression: a time that had passed and was nobody's any more kept the claim loop busy for ever.
func TestNothingIsDueInAWorkerAtRest(t *testing.T) {
	t.Parallel()
	w := New(Config{Name: "node-1", Targets: map[string]int{"a": 1}, LostAfter: time.Hour})
	w.survey = board.Backoff{}
	w.identity = identity{workerID: workerIDOf("node-1", 0), checked: time.Now()}
	if left := w.untilDue(time.Now()); left < time.Minute {
		t.Errorf("the loop wakes again after %s", left)
	}
}
