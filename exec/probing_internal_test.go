package exec

import (
	"log/slog"
	"testing"
	"time"
)

// The table is asked about thousands of refused rows at a pace, about all of them in turn, and the claim
// loop sleeps meanwhile. When it lets one be claimed, it is asked about the others at once.
func TestRefusedRowsAreAskedAboutAtAPace(t *testing.T) {
	t.Parallel()
	const rows, minutes = 500, 10
	w := New(Config{Targets: map[string]int{"a": 1}, Logger: slog.New(slog.DiscardHandler)})
	now := time.Now()
	for id := range int64(rows) {
		w.asides[id] = &aside{target: "a"}
	}
	questions, asked := 0, make(map[int64]bool)
	for until := now.Add(minutes * time.Minute); now.Before(until); {
		for ids := w.dueAsides(now); len(ids) > 0; ids = w.dueAsides(now) {
			for _, id := range ids {
				questions, asked[id] = questions+1, true
				w.asides[id].rest.Grow(now, firstAside, longAside)
			}
		}
		sleep := w.untilDue(now)
		if sleep <= 0 {
			t.Fatal("the loop does not sleep")
		}
		now = now.Add(sleep)
	}
	if most := probeStore + probePace*60*minutes; questions > most || len(asked) != rows {
		t.Errorf("asked %d times about %d rows, of %d; want %d times at most", questions, len(asked), rows, most)
	}
	w.mu.Lock()
	w.hurryProbes()
	w.mu.Unlock()
	if got := len(w.dueAsides(now.Add(longAside))); got != mostProbes {
		t.Errorf("asked about %d rows when one can be claimed, want %d", got, mostProbes)
	}
}
