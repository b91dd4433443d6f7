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

// A request of which somebody says that it is to end before it is sent is not sent, whether that is said
// before the turn that journals its connection, or while that is under way. Where the signal can't be
// journalled it is.
func TestARequestThatIsToEndIsNotSent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Board, *Job){
		"cancel": func(b *Board, j *Job) { b.Cancel(Cancel{Job: j, By: "me", Grace: time.Hour, To: make(chan Cancel, 1)}) },
		"kill": func(b *Board, j *Job) {
			b.Signal(Signal{Job: j, Event: journal.Signal{Signo: 9}, To: make(chan error, 1)})
		},
	} {
		for _, meanwhile := range []bool{false, true} {
			for _, refused := range []error{nil, &journal.IllegalError{}} {
				b, j, now := requested(t)
				if !meanwhile {
					end(b, j)
				}
				turn, _ := b.Turn(now, instance)
				if meanwhile {
					end(b, j)
				}
				var first Turn // what tells of the connection
				var later Turn
				for _, s := range turn.Steps {
					if s.process {
						first.Steps = append(first.Steps, s)
					} else {
						later.Steps = append(later.Steps, s)
					}
				}
				if e := takeTurn(b, first, nil); len(e.Held) != 0 {
					t.Errorf("%s, meanwhile %t: %+v", name, meanwhile, e.Held)
				}
				if meanwhile {
					later, _ = b.Turn(now, instance)
				}
				e := takeTurn(b, later, refused)
				if goes := len(e.Held) == 1 && e.Held[0].Go; goes != (refused != nil) || len(e.Cancelled)+len(e.Signalled) != 1 {
					t.Errorf("%s, meanwhile %t, refused %v: %+v", name, meanwhile, refused, e)
				}
			}
		}
	}
}

// Another signal than one that ends a request holds nothing up.
func TestARequestThatGetsAnotherSignalIsSent(t *testing.T) {
	t.Parallel()
	b, j, now := requested(t)
	b.Signal(Signal{Job: j, Event: journal.Signal{Signo: 10}, To: make(chan error, 1)})
	turn, _ := b.Turn(now, instance)
	if e := takeTurn(b, turn, nil); len(e.Held) != 1 || !e.Held[0].Go {
		t.Errorf("%+v", e)
	}
}

// The end of a request that somebody ended before it had its connection says who: no signal of it is
// journalled. Where it was taken back instead, nothing of that is left in its next start: a signal that ends
// that one, and that nobody has told of, lets it be tried again.
func TestWhoEndsARequestThatWaitsForItsConnection(t *testing.T) {
	t.Parallel()
	killed := Outcome{Fate: Over, Done: journal.Done{Result: "fail", Signal: "SIGKILL", Reason: "it was cancelled before its request was sent"}}
	for name, test := range map[string]struct {
		takenBack bool
		reason    string
		again     bool
	}{
		"given up":   {reason: killed.Done.Reason + ", by me"},
		"taken back": {takenBack: true, reason: killed.Done.Reason, again: true},
	} {
		now := time.Unix(1_000_000, 0)
		b := New(Config{Targets: map[string]int{"a": 1}, Again: true, Timing: Timing{
			Executor: "http", Terms: map[string]Terms{"a": {Own: true, Executor: "http", Attempts: 2}},
		}})
		row := journal.Row{Job: 1, Target: "a", Status: journal.RowWaiting, Plan: &journal.Plan{}}
		claimRows(t, b, now, row)
		j := b.Job(1)
		for _, by := range []string{"me", "you"} {
			if !b.GiveUp(j, by, true) {
				t.Fatalf("%s: its request can't be given up", name)
			}
		}
		if test.takenBack {
			b.Unwanted(j)
			refuseStart(b, 1, now)
			again(t, b, 1, now)
		}
		b.Ended(j, journal.Started{}, killed)
		turn, _ := b.Turn(now, instance)
		drafts := turn.Steps[0].Drafts
		done, is := drafts[len(drafts)-1].Payload.(journal.Done)
		if !is || done.Reason != test.reason || done.Again != nil != test.again {
			t.Errorf("%s: %+v", name, drafts)
		}
	}
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
	if e := takeTurn(b, turn, nil); len(e.Held) != 1 || !e.Held[0].Go || len(turn.Steps) != 1 || j.halted != 0 {
		t.Errorf("%+v, %d steps, %d signals that end it", e, len(turn.Steps), j.halted)
	}
}
