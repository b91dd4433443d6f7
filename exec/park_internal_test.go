package exec

import (
	"strings"
	"testing"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// Parked jobs don't make a target claim without bound, and the operator is told why it does not.
func TestATargetWithManyParkedJobsClaimsNoMore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                  string
		concurrency, prefetch int
		most                  int
	}{
		{"small", 1, 0, 100},
		{"with prefetch", 80, 70, 150},
		{"a job of prefetch for each slot", 80, -1, 160},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := New(Config{Targets: map[string]int{"a": test.concurrency}, Prefetch: test.prefetch})
			a := w.targets["a"]
			w.poll("a")
			for id := range test.most - 1 {
				w.park(int64(id + 1))
			}
			if n, why := a.room(test.prefetch, time.Now()), w.hindrance(a, false).Why; n == 0 || why != "" {
				t.Errorf("%d parked: room %d, why %q", a.Parked(), n, why)
			}
			w.park(int64(test.most))
			if n, why := a.room(test.prefetch, time.Now()), w.hindrance(a, false).Why; n != 0 || !strings.Contains(why, "their rows can't be updated") {
				t.Errorf("%d parked: room %d, why %q", a.Parked(), n, why)
			}
			if n := a.Length(); n != test.most {
				t.Errorf("length %d, want %d", n, test.most)
			}
		})
	}
}

// park claims a job of target a for its slot, and parks it.
func (w *Worker) park(id int64) {
	var c board.Claim
	drafts := w.board.Accept(&c, journal.Row{Job: id, Target: "a"}, "@mark00000", "runner-1", time.Now())
	var events []journal.Event
	for _, d := range drafts {
		events = append(events, journal.Event{Seq: uint64(id), Job: d.Job, Payload: d.Payload})
	}
	w.board.Decided(&c, events)
	for _, s := range w.board.Won(&c).Start {
		w.board.Park(s)
	}
}
