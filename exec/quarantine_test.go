package exec_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// until waits for something that the worker's status shows; status has no signal.
func (f *fixture) until(what string, holds func(jobexec.Status) bool) {
	f.t.Helper()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	late := time.After(hung)
	for !holds(f.worker.Status()) {
		select {
		case <-ticks.C:
		case <-late:
			f.t.Fatalf("%s: not within %s; status %+v", what, hung, f.worker.Status())
		}
	}
}

// Regression: one row that a CHECK refuses stopped all claims of all targets, and each try
// journalled another two events.
func TestARowThatTheTableRefusesIsQuarantined(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "b"))
	tab.refused[1] = "CHECK weight is violated"
	f := newFixture(t, tab, nil)
	f.start()
	f.next().exit(0)
	f.next().exit(0)
	f.until("the row is listed", func(s jobexec.Status) bool { return len(s.Quarantined) == 1 })
	if row := f.worker.Status().Quarantined[0]; row.Job != 1 || row.Target != "a" || row.Reason != "CHECK weight is violated" {
		t.Errorf("quarantined: %+v", row)
	}
	f.explain(1, "it is explained, and is no claim any more", func(e jobexec.Explanation) bool {
		q := e.Quarantined
		return e.Standing == nil && q != nil && q.Job == 1 && q.Target == "a" && q.Reason == "CHECK weight is violated" && time.Since(q.Since) < time.Minute
	})
	f.wait("the others are done", func(s *journal.State) bool {
		return len(s.Jobs) == 0 && s.Job(2).Status.Ended() && s.Job(3).Status.Ended()
	})
	for range 3 { // polls don't have it claimed again before its time
		f.worker.PollAll()
	}
	events := f.events(1)
	if got := words(f.story(1)); got != "accepted running released" && got != "accepted released" {
		t.Fatalf("story %q: it is claimed once", got)
	}
	release := events[len(events)-1].Payload.(journal.Released)
	if release.Reason != "CHECK weight is violated" || release.Target != "a" || release.Token == "" {
		t.Errorf("released: %+v", release)
	}
	tab.change(func() { delete(tab.refused, 1) })
	f.next().exit(0)
	f.wait("it is done", ended(1))
	f.until("nothing is aside", func(s jobexec.Status) bool { return len(s.Quarantined) == 0 })
}

// Regression: refused rows of a target that the worker does not serve any more were listed for ever.
func TestRefusedRowsLeaveWithTheirTarget(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	tab.refused[1] = "CHECK weight is violated"
	f := newFixture(t, tab, func(c *jobexec.Config) { c.Targets = map[string]int{"a": 1, "b": 1} })
	f.start()
	f.until("the row is listed", func(s jobexec.Status) bool { return len(s.Quarantined) == 1 })
	must.Do(t, f.worker.SetTargets(map[string]int{"b": 1}, "somebody"))
	f.until("nothing is aside", func(s jobexec.Status) bool { return len(s.Quarantined) == 0 })
}

// Regression: thousands of refused rows held up those behind them. Those that can be claimed are,
// wherever they stand; and when the table takes the rows, they are claimed too.
func TestThousandsOfRefusedRowsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	const rows = 4000
	tab := newTable()
	good, all := map[int64]string{}, map[int64]string{}
	for id := int64(1); id <= rows; id++ {
		tab.rows[id] = waiting(id, "a")
		if all[id] = journal.RowDone; id%1000 == 500 {
			good[id] = journal.RowDone
		} else {
			tab.refused[id] = "CHECK weight is violated"
		}
	}
	f := newFixture(t, tab, func(c *jobexec.Config) { c.Targets = map[string]int{"a": 300, "b": 1}; c.Prefetch = 300 })
	f.runner.instant = true
	go func() { // more than the stub has room for
		for {
			select {
			case <-f.runner.started:
			case <-f.runner.forgotten:
			case <-t.Context().Done():
				return
			}
		}
	}()
	f.start()
	f.reach(good)
	f.until("the others are aside", func(s jobexec.Status) bool { return len(s.Quarantined) == rows-len(good) })
	if why := f.worker.Status().Targets["a"].Why; why != "" {
		t.Errorf("nothing is said to be claimed for target a: %s", why)
	}
	tab.insert(waiting(rows+1, "a"))
	f.worker.PollAll()
	f.reach(map[int64]string{rows + 1: journal.RowDone})

	tab.change(func() { clear(tab.refused) })
	f.reach(all)
}

// Where more rows are refused than are remembered, the claims of their target rest, and it says why. Other
// targets, and what is claimed already, are not held up. Nothing is lost: when the table takes the rows,
// they are claimed.
func TestATargetWithMoreRefusedRowsThanAreRememberedRests(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "b"))
	for id := int64(1); id <= 3; id++ {
		tab.refused[id] = "CHECK weight is violated"
	}
	f := newFixture(t, tab, func(c *jobexec.Config) { c.Targets = map[string]int{"a": 1, "b": 1} })
	f.worker.QuarantineAtMost(2)
	f.start()
	f.next().exit(0)
	f.until("the target says why", func(s jobexec.Status) bool {
		return strings.Contains(s.Targets["a"].Why, "refuses") && len(s.Quarantined) == 2 && s.Targets["b"].Why == ""
	})
	tab.change(func() { clear(tab.refused) })
	f.worker.PollAll()
	for range 3 {
		f.next().exit(0)
	}
}

// starting is the error of claims before the mirror has confirmed the table's server.
type starting struct{ error }

func (starting) Passing() bool { return true }

// Regression: one target whose claims fail, as a name outside the column's character set did,
// failed the claims of all.
//
// Regression: claims that came before the mirror had confirmed the table's server, as each start's
// may, made warnings. The same of an error that says nothing of the kind is one.
func TestTargetsThatFailHoldUpNoOther(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "b"), waiting(3, "c"))
	tab.failing["a"], tab.failing["b"] = starting{errors.New("its rows are compared first")}, errors.New("illegal mix of collations")
	f := newFixture(t, tab, nil)
	log := f.logged(slog.LevelInfo, func(c *jobexec.Config) { c.Targets = map[string]int{"a": 2, "b": 1, "c": 1} })
	if p := f.next(); p.spec.Job != 3 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	f.until("both targets say why", func(s jobexec.Status) bool {
		return strings.Contains(s.Targets["a"].Why, "compared first") && strings.Contains(s.Targets["b"].Why, "illegal mix") && s.Targets["c"].Why == ""
	})
	tab.change(func() { clear(tab.failing) })
	f.next().exit(0)
	f.next().exit(0)
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Targets["a"].Why == "" && s.Targets["b"].Why == "" })
	warned := log.await(t, 1, "WARN", "jobs of a target can't be claimed for now; trying again")
	if len(warned) != 1 || warned[0]["target"] != "b" {
		t.Errorf("the warnings are %v", warned)
	}
}

// Regression: claims that were overtaken again and again, as a trigger's SIGNAL with the number of
// a deadlock looks, were repeated without a pause, with two more events in the journal each time.
// The row at fault is found and quarantined.
func TestClaimsThatAreAlwaysOvertakenDoNotLoop(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"undone": undone{errors.New("1213")}, "not known": errors.New("1213, says somebody")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tab := newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "b"))
			tab.commit = func(apply func()) error {
				before := tab.rows[1]
				apply()
				if tab.rows[1] == before {
					return nil
				}
				for id := range tab.rows {
					if row := tab.rows[id]; row.Owner == tab.rows[1].Owner {
						row.Status, row.Owner = journal.RowWaiting, ""
						defer func() { tab.rows[id] = row }()
					}
				}
				return cause
			}
			f := newFixture(t, tab, nil)
			f.start()
			for range 3 {
				f.next().exit(0)
			}
			f.until("the row is quarantined", func(s jobexec.Status) bool { return len(s.Quarantined) == 1 && s.Quarantined[0].Job == 1 })
			if n := count(f.story(1), journal.KindAccepted); n > 12 {
				t.Errorf("accepted %d times", n)
			}
		})
	}
}

// A row that the journal holds as under way, though memory does not, is the worker's own mistake:
// it must not stop the target.
func TestARowThatContradictsTheJournalIsQuarantined(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "a"))
	f := newFixture(t, tab, nil)
	must.Do(t, f.worker.Open(1))
	left(t, f.journal, journal.Accepted{Target: "a", Token: "@abcdefghi"})
	f.run()
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	if rows := f.worker.Status().Quarantined; len(rows) != 1 || rows[0].Job != 1 {
		t.Errorf("quarantined: %+v", rows)
	}
}

// explain waits until the worker explains a job as wanted.
func (f *fixture) explain(id int64, what string, holds func(jobexec.Explanation) bool) jobexec.Explanation {
	f.t.Helper()
	var e jobexec.Explanation
	f.until(what, func(jobexec.Status) bool {
		e = f.worker.Explain([]int64{id})[id]
		return holds(e)
	})
	return e
}

// A worker tells of its jobs where they stand, and of its targets what they could do.
func TestAWorkerExplains(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), waiting(3, "b")), func(c *jobexec.Config) { c.Prefetch = 1 })
	f.start()
	first := f.next()
	begun := f.explain(1, "it runs", func(e jobexec.Explanation) bool {
		return e.Standing != nil && e.Standing.Phase == board.Running && e.Standing.Started.Pid != 0
	})
	var known journal.Job
	f.journal.View(func(s *journal.State) { known = s.Job(1) })
	if s := begun.Standing; s.Target != "b" || s.Attempt != 1 || !s.Claimed.Equal(known.Accepted.Time) || !s.Began.Equal(known.Running.Time) || s.Adopted || begun.Quarantined != nil {
		t.Errorf("%+v", begun.Standing)
	}
	f.explain(2, "it is prefetched", func(e jobexec.Explanation) bool { return e.Standing != nil && e.Standing.Phase == board.Queued })
	if e := f.worker.Explain([]int64{3, 99}); e[99] != (jobexec.Explanation{}) || e[3].Standing != nil {
		t.Errorf("not ours: %+v", e)
	}
	stands := f.worker.ExplainTargets([]string{"a", "b", "x"})
	if a := stands["a"]; len(stands) != 2 || a.Room != 3 || a.Kind != "" || a.Paused || a.Concurrency != 2 {
		t.Errorf("%+v", stands)
	}
	if b := stands["b"]; b.Room != 0 || b.Running != 1 || b.Prefetched != 1 {
		t.Errorf("%+v", b)
	}
	before := f.events(0)
	if err := f.worker.Pause([]string{"b"}, "me"); err != nil {
		t.Fatal(err)
	}
	if b := f.worker.ExplainTargets([]string{"b"})["b"]; !b.Paused || b.PausedBy != "me" || b.PausedSince == 0 {
		t.Errorf("paused: %+v", b)
	}
	first.exit(0)
	f.explain(1, "it is gone", func(e jobexec.Explanation) bool { return e.Standing == nil })
	if after := f.events(0); len(after) != len(before)+1 { // the pause
		t.Errorf("explaining has journalled something: %v", after)
	}
}
