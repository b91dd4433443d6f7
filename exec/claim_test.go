package exec_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// The table takes claims already, but the mirror has not come back yet: what was claimed and, with
// LaunchOffline, run meanwhile would only be owed to the table, without bound.
func TestNothingIsClaimedWhileTheMirrorIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), func(c *jobexec.Config) { c.LaunchOffline = true })
	f.mirror.seen = make(chan struct{}, 1)
	f.mirror.setAway(true)
	f.start()
	for range 3 {
		<-f.mirror.seen
		f.worker.PollAll()
	}
	if got := f.table.status(1); got != journal.RowWaiting {
		t.Errorf("the job is %s", got)
	}
	f.none()
	f.mirror.setAway(false)
	f.worker.PollAll()
	f.next().exit(0)
}

// undone is the error of a claim that certainly did not happen.
type undone struct{ error }

func (undone) Undone() bool { return true }

// Regression: rows that somebody's transaction held when a claim looked were stranded: SKIP LOCKED
// finds fewer than asked for, and that was taken for all there is. Nobody polls here.
func TestRowsBehindSomebodysLockAreLookedForAgain(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "b"))
	tab.locked[1], tab.locked[2] = true, true
	tab.uncommitted[4] = waiting(4, "b")
	f := newFixture(t, tab, nil)
	f.start()
	p := f.next()
	if p.spec.Job != 3 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	p.exit(0)
	<-tab.selected // once for all
	<-tab.selected // and at least once more, for what is locked
	f.none()
	tab.change(func() {
		clear(tab.locked)
		tab.rows[4] = tab.uncommitted[4]
	})
	for range 3 {
		f.next()
	}
}

// One question serves all targets for which a claim came back short, and what was claimed does not
// wait for it.
func TestStartsDoNotWaitForTheLook(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "b"))
	tab.waitingHeld = make(chan struct{})
	f := newFixture(t, tab, nil)
	f.start()
	first, second := f.next(), f.next()
	close(tab.waitingHeld)
	first.exit(0)
	second.exit(0)
	f.wait("both are done", func(s *journal.State) bool { return s.Seq >= 10 && len(s.Jobs) == 0 })
	tab.change(func() {
		if len(tab.asked) == 0 || !slices.Equal(tab.asked[0], []string{"a", "b"}) {
			t.Errorf("the table was asked for %v, want both at once first", tab.asked)
		}
	})
}

// Where nothing waits nobody looks again: one claim and one question a poll.
func TestNobodyLooksAgainWhereNothingWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	<-f.table.selected
	for range 3 {
		f.worker.PollAll()
		<-f.table.selected
	}
	select {
	case <-f.table.selected:
		t.Error("a claim that nobody asked for")
	case <-time.After(300 * time.Millisecond):
	}
}

// Regression: with a small fetch limit the rows that a worker passed over because it still held
// them, reset by somebody, filled each claim, and all others waited behind them.
func TestRowsThatArePassedOverDoNotFillTheClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), func(c *jobexec.Config) { c.Prefetch, c.FetchLimit = 0, 1 })
	f.start()
	p := f.next()
	f.table.insert(waiting(1, "a"), waiting(2, "a"))
	f.worker.PollAll()
	other := f.next()
	if other.spec.Job != 2 {
		t.Fatalf("job %d was started", other.spec.Job)
	}
	other.exit(0)
	p.exit(0)
	if again := f.next(); again.spec.Job != 1 {
		t.Errorf("job %d was started, want the one that was reset, once it had ended", again.spec.Job)
	}
}

// The interval has jitter, and nobody else asks.
func TestThePollIntervalFindsRowsWithoutAHint(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), func(c *jobexec.Config) { c.PollInterval = 30 * time.Millisecond })
	f.start()
	<-f.table.selected
	f.table.insert(waiting(1, "a"))
	f.next().exit(0)
}

// A worker that serves their target claims rows that were given back, without a poll of anybody.
func TestGivenBackPollsForWhatIsServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	<-f.table.selected
	f.table.insert(waiting(1, "a"))
	f.worker.GivenBack([]string{"elsewhere", "a"})
	f.next().exit(0)
}

// Regression: one locked row of a claim in doubt held up all claims at a start. Nor does a question about
// such rows that fails for a reason of their own: it is asked for each of them.
func TestARowInDoubtHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	for name, hinder := range map[string]func(*table){
		"it is locked":       func(tab *table) { tab.locked[1] = true },
		"the question fails": func(tab *table) { tab.rowsErr = errors.New("a value that nobody can read") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tab := newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: accepted.Token}, waiting(2, "a"))
			hinder(tab)
			f := newFixture(t, tab, nil)
			left(t, f.journal, accepted)
			f.start()
			if p := f.next(); p.spec.Job != 2 {
				t.Fatalf("job %d was started", p.spec.Job)
			}
			if got := f.worker.Status().Doubted; got != 1 {
				t.Errorf("%d claims in doubt, want 1", got)
			}
			tab.change(func() {
				clear(tab.locked)
				tab.rowsErr = nil
			})
			if p := f.next(); p.spec.Job != 1 {
				t.Fatalf("job %d was started", p.spec.Job)
			}
		})
	}
}

// A claim in doubt of which the mirror journalled a conflict meanwhile can't be released any more,
// and is forgotten.
func TestADoubtThatTheJournalHasEndedIsForgotten(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	f := newFixture(t, newTable(waiting(2, "a")), nil)
	left(t, f.journal, accepted)
	f.table.locked[1] = true
	f.start()
	f.next().exit(0)
	left(t, f.journal, journal.Conflict{Token: accepted.Token})
	f.table.change(func() { clear(f.table.locked) })
	f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
	if got := words(f.story(1)); got != "accepted conflict" {
		t.Errorf("story %q", got)
	}
}

// gearman has Gearman workers run jobs.
var gearman = jobexec.Launcher{Mode: jobexec.ModeGearman, Words: []string{"gearman"}, Service: jobexec.Service{Mode: jobexec.ModeGearman}}

// A target that no configuration names stays with its launcher when one is read again, until somebody removes it.
func TestAFoundTargetStays(t *testing.T) {
	t.Parallel()
	kept, asked := &pools{}, newRequester()
	f := newFixture(t, newTable(), modes(forks, kept, asked))
	f.start()
	for range 2 {
		must.Do(t, f.worker.FindTarget("g", 3, gearman, "10.0.0.1:5"))
	}
	must.Do(t, f.worker.FindTarget("a", 3, gearman, "10.0.0.1:5")) // it is served
	check := func(what string) {
		t.Helper()
		if n := f.worker.Status().Targets["g"].Concurrency; n != 3 || asked.services["g"] != gearman.Service || len(asked.services) != 1 {
			t.Errorf("%s: %d slots, services %v", what, n, asked.services)
		}
	}
	check("when it is found")
	f.worker.SetTerms(forks, map[string]jobexec.Terms{"a": {}}, nil, false)
	must.Do(t, f.worker.SetTargets(map[string]int{"a": 1}, "me"))
	check("when a configuration is read again")
	must.Do(t, f.worker.RemoveTarget("g", "me"))
	if f.worker.Serves("g") || len(asked.services) != 0 {
		t.Errorf("when it is removed: services %v", asked.services)
	}
	must.Do(t, f.worker.AddTarget("g", 1, "me"))
	if len(asked.services) != 0 {
		t.Errorf("when it is added by hand: services %v", asked.services)
	}
}

// Who cancels what was not started leaves a job alone that runs. One that waits for its process is taken back.
func TestCancelOfWhatWasNotStarted(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a")), modes(posts, nil, asked))
	f.start()
	runs, waits := asked.asks(t), asked.asks(t)
	runs.connects()
	runs.sends(t)
	wish := jobexec.CancelWish{IDs: []int64{runs.spec.Job, waits.spec.Job}, Rows: true, Unstarted: true, By: "me"}
	told := must.Get(f.worker.Cancel(t.Context(), wish))(t)
	if len(told.Jobs) != 1 || told.Errors[runs.spec.Job] == "" {
		t.Errorf("told: %+v", told)
	}
	runs.ends(answered("ok"), nil)
	f.reach(map[int64]string{runs.spec.Job: journal.RowDone, waits.spec.Job: journal.RowIgnored})
}

// A job whose Gearman worker is lost is one attempt less, and started again at once.
func TestAttemptsOfALostGearmanWorker(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.build(func(c *jobexec.Config) {
		modes(gearman, nil, asked)(c)
		c.Terms = map[string]jobexec.Terms{"a": {Launcher: &gearman, Attempts: 2}}
	})
	f.start()
	for attempt := 1; attempt <= 2; attempt++ {
		p := asked.asks(t)
		if p.spec.Attempt != attempt {
			t.Fatalf("attempt %d, not %d", p.spec.Attempt, attempt)
		}
		p.connects()
		p.sends(t)
		p.ends(journal.Done{}, jobexec.ErrOutcomeUnknown)
	}
	f.reach(map[int64]string{1: journal.RowDone})
}

// Regression: claims that start their jobs themselves overtook a mirror that was slow, for ever.
func TestClaimsDoNotOvertakeTheMirror(t *testing.T) {
	t.Parallel()
	const rows, slots = 40, 2
	table := newTable()
	for id := range int64(rows) {
		table.insert(waiting(id+1, "a"))
	}
	f := newFixture(t, table, func(c *jobexec.Config) { c.Prefetch = 0 })
	f.mirror.held, f.mirror.seen = make(chan struct{}), make(chan struct{}, 1)
	f.runner.instant = true
	f.start()
	claimed := func() (n int) {
		for id := range int64(rows) {
			n += one(f.table.status(id+1) != journal.RowWaiting)
		}
		return n
	}
	f.wait("as many have ended as there are slots", func(s *journal.State) bool { return s.Seq > 4*slots && len(s.Jobs) == 0 })
	for range 50 {
		f.worker.PollAll()
		<-f.mirror.seen
	}
	if n := claimed(); n > 2*slots {
		t.Errorf("%d rows are claimed, and no end is shown: want at most one a slot that has ended, and one that runs", n)
	}
	close(f.mirror.held)
	f.wait("all are done", func(s *journal.State) bool { return s.Seq > 3*rows && len(s.Jobs) == 0 })
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
