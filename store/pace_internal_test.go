package store

import (
	"testing"
	"time"
)

// Of rows that a rule of the table refuses few are tried together, and then none for a while; where one
// is taken the rule was mended, and the others are tried without delay.
func TestRefusedRowsAreTriedAFewAtATime(t *testing.T) {
	t.Parallel()
	b := &backlog{rows: map[int64]*aside{}}
	now := time.Now()
	for job := range int64(1000) {
		b.set(Change{Job: job, first: uint64(job) + 1}, Outcome{Fate: Refused}, false, now)
	}
	b.set(Change{Job: 5000, first: 5000}, Outcome{Fate: Held}, false, now)
	b.reckon()
	now = now.Add(time.Minute)
	if got := len(b.due(now)); got != mostRefused+1 {
		t.Errorf("%d are tried together", got)
	}
	if got := len(b.due(now.Add(refusedPause / 2))); got != 1 {
		t.Errorf("%d are tried before the pause is over, want the one that is only held", got)
	}
	b.endFirst(1, now)
	b.reckon()
	if got := len(b.due(now)); got != mostRefused+1 {
		t.Errorf("%d are tried when one was taken", got)
	}
}
