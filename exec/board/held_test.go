package board

import (
	"errors"
	"testing"
	"time"

	"jobd/journal"
)

// requested makes a board whose only job is a request that has its connection, and is about to be
// journalled with that.
func requested(t *testing.T) (*Board, *Job, time.Time) {
	t.Helper()
	now := time.Unix(1_000_000, 0)
	b := New(Config{Targets: map[string]int{"a": 1}, Timing: Timing{Executor: "http"}})
	claim := &Claim{}
	var events []journal.Event
	for _, d := range b.Accept(claim, journal.Row{Job: 1, Target: "a", Status: journal.RowWaiting}, "@abcd00000", instance, now) {
		events = append(events, journal.Event{Seq: uint64(len(events) + 1), Job: d.Job, Payload: d.Payload})
	}
	b.Decided(claim, events)
	e := b.Won(claim)
	if ask, _ := b.Ask(e.Start[0]); !ask {
		t.Fatal("its start is not asked for")
	}
	j := b.Job(1)
	b.Asked(j, "its process")
	b.Began(j, journal.Started{Address: "127.0.0.1:80"}, now)
	return b, j, now
}

// takeTurn journals a turn, with an error where it is refused.
func takeTurn(b *Board, turn Turn, refused error) Effects {
	for _, s := range turn.Steps {
		if s.Err = refused; refused != nil {
			continue
		}
		for _, d := range s.Drafts {
			s.Events = append(s.Events, journal.Event{Seq: 10, Job: d.Job, Payload: d.Payload})
		}
	}
	return b.Journalled(turn)
}

// A signal for a start that is over, or that was not asked for, is journalled of none that follows, and
// counts for none.
func TestASignalIsForOneStart(t *testing.T) {
	t.Parallel()
	b, j, now := requested(t)
	b.Ended(j, journal.Started{Address: "127.0.0.1:80"}, Outcome{Fate: NotStarted, Cause: errors.New("it was closed"), Short: true})
	turn, _ := b.Turn(now, instance)
	takeTurn(b, turn, nil)
	kill := Signal{Job: j, Event: journal.Signal{Signo: 9, Ends: true}, To: make(chan error, 1)}
	gone := func() {
		t.Helper()
		if e := b.Signal(kill); len(e.Signalled) != 1 || !errors.Is(e.Signalled[0].Err, ErrGone) {
			t.Errorf("while it is %s: %+v", j.phase, e)
		}
	}
	gone()
	b.Renew(j)
	turn, _ = b.Turn(now, instance)
	for _, s := range takeTurn(b, turn, nil).Start {
		b.Ask(s)
		gone()
		b.Asked(j, "its process")
	}
	b.Began(j, journal.Started{Address: "127.0.0.1:80"}, now)
	turn, _ = b.Turn(now, instance)
	if e := takeTurn(b, turn, nil); len(e.Held) != 1 || !e.Held[0].Go || len(turn.Steps) != 1 {
		t.Errorf("%+v, %d steps", e, len(turn.Steps))
	}
}
