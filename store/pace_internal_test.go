package store

import (
	"testing"
	"time"
)

// Thousands of rows that a rule refuses are tried at a pace, all of them in turn; a row that is locked does
// not wait for them; and when one is taken the others are tried at once.
func TestRefusedRowsAreTriedAtAPace(t *testing.T) {
	t.Parallel()
	const rows, minutes = 500, 10
	now := time.Unix(1_000_000, 0)
	b := backlog{rows: make(map[int64]*aside), share: 1}
	for id := range int64(rows) {
		b.set(Change{Job: id, first: uint64(id + 1)}, Outcome{Fate: Refused}, false, now)
	}
	tries, tried := 0, make(map[int64]bool)
	for until := now.Add(minutes * time.Minute); now.Before(until); {
		b.reckon(now)
		if !b.nextDue.After(now) {
			t.Fatalf("it is due at %v already, and now is %v", b.nextDue, now)
		}
		now = b.nextDue
		for {
			changes := b.due(now)
			for _, c := range changes {
				tries, tried[c.Job] = tries+1, true
				b.set(c, Outcome{Fate: Refused}, false, now)
			}
			if len(changes) == 0 {
				break
			}
		}
	}
	if most := refusedStore + refusedPace*60*minutes; tries > most || len(tried) != rows {
		t.Errorf("%d tries of %d rows, of %d; want %d tries at most", tries, len(tried), rows, most)
	}
	b.set(Change{Job: rows, first: rows + 1}, Outcome{Fate: Held}, false, now)
	b.reckon(now)
	if locked := now.Add(firstHeld); b.nextDue.After(locked) {
		t.Errorf("a locked row is due at %v, want %v", b.nextDue, locked)
	}
	now = now.Add(time.Hour)
	b.endFirst(0, now)
	b.share = rows
	b.reckon(now)
	if got := len(b.due(now)); got < refusedStore {
		t.Errorf("%d rows are tried when one was taken", got)
	}
	for id := int64(1); id < rows; id++ { // each lets the next ones be tried
		b.endFirst(id, now)
	}
	if b.pace.room(now) != refusedStore {
		t.Errorf("room for %d rows", b.pace.room(now))
	}
}
