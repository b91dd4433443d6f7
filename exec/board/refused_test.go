package board

import (
	"errors"
	"math"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// accepts has a claim of rows of target a journalled, up to its COMMIT.
func accepts(b *Board, now time.Time, status string, ids ...int64) *Claim {
	claim := &Claim{}
	var events []journal.Event
	for _, id := range ids {
		row := journal.Row{Job: id, Target: "a", Status: status}
		drafts := b.Accept(claim, row, "@abcd00000", instance, now)
		if status == journal.RowManual {
			drafts, _ = b.AcceptManual(claim, row, "@abcd00000", instance)
		}
		for _, d := range drafts {
			events = append(events, journal.Event{Seq: uint64(len(events) + 1), Time: time.Unix(int64(len(events)), 0), Job: d.Job, Payload: d.Payload})
		}
	}
	b.Decided(claim, events)
	return claim
}

// claims has a target claim jobs, and asks for their starts.
func claims(t *testing.T, b *Board, now time.Time, ids ...int64) {
	t.Helper()
	ask(t, b, b.Won(accepts(b, now, journal.RowWaiting, ids...)))
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

// journalled takes a turn.
func journalled(b *Board, now time.Time) Effects {
	turn, _ := b.Turn(now, instance)
	return takeTurn(b, turn, nil)
}

// looked has the launcher of target a looked at, which shows err.
func looked(t *testing.T, b *Board, err error, now time.Time) Effects {
	t.Helper()
	e := b.LookDue(now)
	must.Equal(t, len(e.Look), 1, "looks %v", e.Look)
	return b.Looked(e.Look[0], err, now)
}

// What refuses one job three times in a row can start nothing: nothing is claimed, what has not started is
// given back, and one job each now and then is tried until a start goes well.
func TestAStarterThatRefusesAJobAgainAndAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timing Timing
		why    string
	}{
		"executor":            {Timing{Terms: map[string]Terms{"a": {Own: true, Executor: "fork"}}}, "its executor refuses to start jobs: it can't fork"},
		"launcher of its own": {Timing{Terms: map[string]Terms{"a": {Own: true}}}, "its launcher can't be executed: it can't fork"},
		"launcher":            {Timing{}, "no job can be started for now: it can't fork"},
	} {
		b, now := New(Config{Targets: map[string]int{"a": 2}, Timing: test.timing}), time.Unix(1_000_000, 0)
		a := b.Target("a")
		if claims(t, b, now, 1, 2, 3); b.Job(3).phase != Queued {
			t.Fatalf("job 3 is %s", b.Job(3).phase)
		}
		for range 2 {
			if e := refuseStart(b, 1, now); len(e.Renewed) != 1 || !a.Open() {
				t.Fatalf("%s: %+v, open %t", name, e, a.Open())
			}
			again(t, b, 1, now)
		}
		e := refuseStart(b, 1, now)
		refuseStart(b, 2, now) // was asked for before
		journalled(b, now)
		if len(e.Notes) != 1 || len(e.Renewed) != 0 || a.Open() || a.Room(2) != 0 || len(b.jobs) != 0 {
			t.Fatalf("%s: %+v, open %t, %d jobs", name, e, a.Open(), len(b.jobs))
		}
		if why, since := a.Starter().Why(); why != test.why || !since.Equal(now) {
			t.Errorf("%s: %q since %v", name, why, since)
		}
		for id := int64(4); id < 14; id++ {
			if pause := b.Target("a").starter.rest.Due.Sub(now); pause < firstLook/2 || pause > longLook {
				t.Fatalf("%s: the next look is in %s", name, pause)
			}
			now = b.Target("a").starter.rest.Due
			b.Seen(math.MaxUint64)
			if looked(t, b, nil, now); !a.Open() || a.Room(2) != 1 {
				t.Fatalf("%s: open %t, room %d", name, a.Open(), a.Room(2))
			}
			if claims(t, b, now, id); a.Open() || a.Room(2) != 0 {
				t.Fatalf("%s: open %t beside the trial", name, a.Open())
			}
			e := refuseStart(b, id, now)
			if journalled(b, now); len(e.Notes) != 0 || a.Open() || len(b.jobs) != 0 {
				t.Fatalf("%s: %+v, open %t", name, e, a.Open())
			}
		}
		now = b.Target("a").starter.rest.Due
		looked(t, b, nil, now)
		claims(t, b, now, 20)
		if e := b.Began(b.Job(20), journal.Started{Pid: 7}, now); len(e.Notes) != 1 || len(e.Poll) != 1 || !a.Open() {
			t.Errorf("%s: %+v, open %t", name, e, a.Open())
		}
	}
}

// What a look has shown, a look shows to be over.
func TestALookShowsThatJobsCanBeStarted(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 2}}), time.Unix(1_000_000, 0)
	a := b.Target("a")
	claims(t, b, now, 1)
	b.Ended(b.Job(1), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("no such file")})
	journalled(b, now)
	now = b.Target("a").starter.rest.Due
	looked(t, b, errors.New("no such file or folder"), now)
	if why, _ := b.Launcher().Why(); why != "the launcher can't be executed: no such file or folder" || a.Open() {
		t.Errorf("%q, open %t", why, a.Open())
	}
	now = b.Target("a").starter.rest.Due
	if e := looked(t, b, nil, now); len(e.Notes) != 1 || !a.Open() || a.Room(0) != 2 {
		t.Errorf("%+v, open %t, room %d", e, a.Open(), a.Room(0))
	}
}

// Jobs that clients want run are tried whatever was seen before: all of them, at once.
func TestManualJobsAreTriedWhereNoneCanBeStarted(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"which lasts": true, "which is over": false} {
		b, now := New(Config{Targets: map[string]int{"a": 2}}), time.Unix(1_000_000, 0)
		claims(t, b, now, 1)
		b.Ended(b.Job(1), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("no such file")})
		journalled(b, now)
		b.Wait([]int64{2, 3, 4}, map[int64]Client{2: "", 3: "", 4: ""})
		ask(t, b, b.Won(accepts(b, now, journal.RowManual, 2, 3, 4)))
		told := 0
		for id := int64(2); id <= 4; id++ {
			must.Equal(t, b.Job(id).phase, Asked, "%s: job %d is", name, id)
			if !refused {
				b.Began(b.Job(id), journal.Started{Pid: 7}, now)
				b.Ended(b.Job(id), journal.Started{Pid: 7}, Outcome{Fate: Over, Done: journal.Done{Result: "ok"}})
			} else {
				b.Ended(b.Job(id), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("no such file")})
			}
			for range 2 { // the second announces the next one
				e := journalled(b, now)
				for _, client := range e.Told {
					told += one(client.Why != "")
				}
				ask(t, b, e)
			}
		}
		if want := 3 * one(refused); told != want || b.Target("a").Open() == refused {
			t.Errorf("%s: %d clients are refused, want %d; open %t", name, told, want, b.Target("a").Open())
		}
	}
}

// Where the trial goes, another job may be it.
func TestTheTrialGoes(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 2}, Timing: Timing{Executor: "fork"}}), time.Unix(1_000_000, 0)
	claims(t, b, now, 1)
	for range 3 {
		if refuseStart(b, 1, now); b.Target("a").Open() {
			again(t, b, 1, now)
		}
	}
	journalled(b, now)
	now = b.Target("a").starter.rest.Due
	looked(t, b, nil, now)
	b.Won(accepts(b, now, journal.RowWaiting, 2))
	if b.Target("a").Open() {
		t.Fatal("jobs are claimed beside the trial")
	}
	_, e := b.Cancel(Cancel{Job: b.Job(2), By: "me", To: make(chan Cancel, 1)})
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
// does not, nor does that of a request which was never sent.
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
