package board

import (
	"errors"
	"testing"
	"time"

	"jobd/journal"
)

// claims has a target claim jobs, and asks for their starts.
func claims(t *testing.T, b *Board, now time.Time, ids ...int64) {
	t.Helper()
	rows := make([]journal.Row, 0, len(ids))
	for _, id := range ids {
		rows = append(rows, journal.Row{Job: id, Target: "a", Status: journal.RowWaiting})
	}
	claimRows(t, b, now, rows...)
}

// claimRows claims rows, and asks for their starts.
func claimRows(t *testing.T, b *Board, now time.Time, rows ...journal.Row) {
	t.Helper()
	claim := &Claim{}
	var events []journal.Event
	for _, row := range rows {
		for _, d := range b.Accept(claim, row, "@abcd00000", instance, now) {
			events = append(events, journal.Event{Seq: uint64(len(events) + 1), Job: d.Job, Payload: d.Payload})
		}
	}
	b.Decided(claim, events)
	ask(t, b, b.Won(claim))
}

// ask asks for starts.
func ask(t *testing.T, b *Board, e Effects) {
	t.Helper()
	for _, s := range e.Start {
		if asked, _ := b.Ask(s); asked {
			b.Asked(s.Job, "its process")
		}
	}
}

// refuseStart has the executor refuse the start of a job.
func refuseStart(b *Board, id int64, now time.Time) Effects {
	b.Ended(b.Job(id), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("it can't fork"), Short: true})
	turn, e := b.Turn(now, instance)
	takeTurn(b, turn, nil)
	return e
}

// again announces a job anew that was refused, and asks for its start.
func again(t *testing.T, b *Board, id int64, now time.Time) {
	t.Helper()
	b.Renew(b.Job(id))
	turn, _ := b.Turn(now, instance)
	ask(t, b, takeTurn(b, turn, nil))
}

// An executor that refuses one job three times in a row is unable: nothing is claimed, what has not
// started is given back, and that one job is tried again each few seconds until a start goes well.
func TestAnExecutorThatRefusesAJobAgainAndAgain(t *testing.T) {
	t.Parallel()
	for name, terms := range map[string]Terms{"executor": {Own: true, Executor: "fork"}, "launcher": {Own: true}} {
		b, now := New(Config{Targets: map[string]int{"a": 2}, Timing: Timing{Terms: map[string]Terms{"a": terms}}}), time.Unix(1_000_000, 0)
		a := b.Target("a")
		if claims(t, b, now, 1, 2, 3); b.Job(3).phase != Queued {
			t.Fatalf("job 3 is %s", b.Job(3).phase)
		}
		refuse := func(id int64) Effects {
			if name == "executor" {
				return refuseStart(b, id, now)
			}
			b.Ended(b.Job(id), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("it can't fork")})
			turn, e := b.Turn(now, instance)
			takeTurn(b, turn, nil)
			return e
		}
		for range 2 {
			if e := refuse(1); len(e.Renewed) != 1 || e.Renewed[0].After != 0 || !a.Open() {
				t.Fatalf("%s: %+v, open %t", name, e, a.Open())
			}
			again(t, b, 1, now)
		}
		e := refuse(1)
		if len(e.Notes) != 1 || len(e.Renewed) != 1 || e.Renewed[0].After < firstProbe/2 || a.Open() || a.Room(2) != 0 || b.Job(3) != nil {
			t.Fatalf("%s: %+v, open %t, job 3 %v", name, e, a.Open(), b.Job(3))
		}
		why := map[string]string{"executor": "its executor refuses to start jobs: it can't fork", "launcher": "its launcher can't be executed: it can't fork"}[name]
		if got, since := a.Unable(); got != why || !since.Equal(now) {
			t.Errorf("%s: %q since %v", name, got, since)
		}
		if refuse(2); b.Job(2) != nil { // was asked for before
			t.Errorf("%s: job 2 is %s", name, b.Job(2).phase)
		}
		for range 9 {
			again(t, b, 1, now)
			e := refuse(1)
			if len(e.Notes) != 0 || len(e.Renewed) != 1 || e.Renewed[0].After < firstProbe/2 || e.Renewed[0].After > lastProbe || a.Open() {
				t.Fatalf("%s: %+v, open %t", name, e, a.Open())
			}
		}
		again(t, b, 1, now)
		if e := b.Began(b.Job(1), journal.Started{Pid: 7}, now.Add(time.Minute)); len(e.Notes) != 1 || len(e.Poll) != 1 || !a.Open() {
			t.Errorf("%s: %+v, open %t", name, e, a.Open())
		}
	}
}

// Where the job goes that is to show how its target stands, others do.
func TestTheJobThatIsRefusedGoes(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 2}, Timing: Timing{Executor: "fork"}}), time.Unix(1_000_000, 0)
	claims(t, b, now, 1)
	for range 3 {
		if refuseStart(b, 1, now); b.Target("a").Open() {
			again(t, b, 1, now)
		}
	}
	if b.Target("a").Open() {
		t.Fatal("jobs are claimed")
	}
	_, e := b.Cancel(Cancel{Job: b.Job(1), By: "me", To: make(chan Cancel, 1)})
	if !b.Target("a").Open() || len(e.Poll) != 1 {
		t.Errorf("%+v, open %t", e, b.Target("a").Open())
	}
}

// Refusals of a job that has started meanwhile are not in a row.
func TestRefusalsInARow(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 2}, Timing: Timing{Executor: "http"}}), time.Unix(1_000_000, 0)
	claims(t, b, now, 1)
	for range 9 {
		b.Began(b.Job(1), journal.Started{Address: "127.0.0.1:80"}, now)
		refuseStart(b, 1, now)
		again(t, b, 1, now)
	}
	if !b.Target("a").Open() {
		t.Error("jobs are not claimed")
	}
}

// Only a job that is started shows that jobs can be: the end of one that was started before the refusals
// does not, nor does that of a request which was never sent, nor a start that another launcher was asked for.
func TestOnlyAStartShowsThatJobsCanBeStarted(t *testing.T) {
	t.Parallel()
	over := Outcome{Fate: Over, Done: journal.Done{Result: "ok"}}
	process := journal.Started{Pid: 8}
	for name, test := range map[string]struct {
		before, behind func(b *Board, j *Job, now time.Time)
		opens          bool
	}{
		"it ends": {
			before: func(b *Board, j *Job, now time.Time) { b.Began(j, process, now) },
			behind: func(b *Board, j *Job, _ time.Time) { b.Ended(j, process, over) },
		},
		"it ends, and its process could not be journalled": {
			before: func(b *Board, j *Job, now time.Time) {
				b.Began(j, process, now)
				turn, _ := b.Turn(now, instance)
				takeTurn(b, turn, &journal.IllegalError{})
			},
			behind: func(b *Board, j *Job, _ time.Time) { b.Ended(j, process, over) },
		},
		"it was never sent": {
			behind: func(b *Board, j *Job, _ time.Time) {
				b.Ended(j, journal.Started{}, Outcome{Fate: Over, Done: journal.Done{Result: "fail", Signal: "SIGKILL"}})
			},
		},
		"an earlier launcher starts it": {
			before: func(b *Board, _ *Job, _ time.Time) { b.NewLauncher() },
			behind: func(b *Board, j *Job, now time.Time) { b.Began(j, process, now) },
		},
		"it begins": {
			behind: func(b *Board, j *Job, now time.Time) { b.Began(j, process, now) },
			opens:  true,
		},
		"it ends at once": {
			behind: func(b *Board, j *Job, _ time.Time) { b.Ended(j, process, over) },
			opens:  true,
		},
	} {
		b, now := New(Config{Targets: map[string]int{"a": 2}, Timing: Timing{Executor: "fork"}}), time.Unix(1_000_000, 0)
		a := b.Target("a")
		claims(t, b, now, 1, 2)
		if test.before != nil {
			test.before(b, b.Job(2), now)
		}
		for tries := 0; a.Open() && tries < 9; tries++ {
			if refuseStart(b, 1, now); a.Open() {
				again(t, b, 1, now)
			}
		}
		if a.Open() {
			t.Fatalf("%s: jobs are claimed", name)
		}
		test.behind(b, b.Job(2), now)
		turn, e := b.Turn(now, instance)
		if takeTurn(b, turn, nil); a.Open() != test.opens || !test.opens && len(e.Notes)+len(e.Poll) != 0 {
			t.Errorf("%s: open %t, %+v", name, a.Open(), e)
		}
	}
}

// A target that is removed as soon as it is empty, and whose jobs are refused, gets empty: the job that is
// tried again and again is given back, wherever it stands. One that was started before goes on as it did.
func TestATargetWhoseJobsAreRefusedIsRemoved(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	journalled := func(b *Board) Effects {
		turn, _ := b.Turn(now, instance)
		return takeTurn(b, turn, nil)
	}
	for name, test := range map[string]struct {
		before    func(t *testing.T, b *Board)
		behind    func(b *Board)
		meanwhile bool // a turn is being journalled
		earlier   bool // the target is to be removed before the last refusal
		attempt   int
	}{
		"while it rests": {},
		"when it is due": {before: func(_ *testing.T, b *Board) { b.Renew(b.Job(1)) }},
		"while it is announced": {
			before:    func(_ *testing.T, b *Board) { b.Renew(b.Job(1)) },
			meanwhile: true,
		},
		"when it was asked for": {
			before: func(t *testing.T, b *Board) { again(t, b, 1, now) },
			behind: func(b *Board) { refuseStart(b, 1, now) },
		},
		"when it was refused twice":  {earlier: true, behind: func(b *Board) { refuseStart(b, 1, now) }},
		"when it was started before": {attempt: 2},
	} {
		b := New(Config{Targets: map[string]int{"a": 2}, Requeue: true, Timing: Timing{Executor: "fork"}})
		a := b.Target("a")
		if test.attempt == 0 {
			claims(t, b, now, 1)
		} else {
			b.Requeue(journal.Job{ID: 1, Target: "a", Token: "@abcd00000", Status: journal.StatusStarting, Attempt: test.attempt})
			ask(t, b, journalled(b))
		}
		for range 2 {
			refuseStart(b, 1, now)
			again(t, b, 1, now)
		}
		if !test.earlier {
			if refuseStart(b, 1, now); a.Open() {
				t.Fatalf("%s: jobs are claimed", name)
			}
		}
		if test.before != nil {
			test.before(t, b)
		}
		var turn Turn
		if test.meanwhile {
			turn, _ = b.Turn(now, instance)
		}
		b.Retire(a, "me")
		takeTurn(b, turn, nil)
		if test.behind != nil {
			test.behind(b)
		}
		journalled(b)
		if _, removed := b.Retired(a); removed != (test.attempt == 0) {
			t.Errorf("%s: to be removed %t, length %d", name, removed, a.Length())
		}
		if j := b.Job(1); test.attempt > 0 && (j == nil || j.phase != Renewing || a.refused.probe != j) {
			t.Errorf("%s: job 1 is %v", name, j)
		}
	}
}
