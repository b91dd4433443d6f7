package exec_test

import (
	"slices"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// Regression: rows that somebody's transaction held when a claim looked were stranded: SKIP LOCKED
// finds fewer than asked for, and that was taken for all there is. Nobody polls here.
func TestRowsBehindSomebodysLockAreLookedForAgain(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "b"))
	tab.locked[1], tab.locked[2] = true, true
	f := newFixture(t, tab, nil)
	f.start()
	if p := f.next(); p.spec.Job != 3 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	<-tab.selected // once for all
	<-tab.selected // and at least once more, for what is locked
	f.none()
	tab.change(func() { clear(tab.locked) })
	f.next().exit(0)
	f.next().exit(0)
}

func TestARowThatIsNotCommittedYetIsLookedForAgain(t *testing.T) {
	t.Parallel()
	tab := newTable()
	tab.uncommitted[1] = waiting(1, "a")
	f := newFixture(t, tab, nil)
	f.start()
	<-tab.selected
	<-tab.selected
	tab.change(func() { tab.rows[1] = tab.uncommitted[1] })
	f.next().exit(0)
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

// A target that is paused looks for nothing, whatever is locked.
func TestAPausedTargetDoesNotLook(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	tab.locked[1] = true
	f := newFixture(t, tab, nil)
	f.start()
	<-tab.selected
	must.Do(t, f.worker.Pause(nil, "me"))
	var before int
	tab.change(func() { before = tab.claims })
	select {
	case <-time.After(200 * time.Millisecond):
	case <-f.ended:
	}
	tab.change(func() {
		clear(tab.locked)
		if tab.claims > before+1 { // one may have been under way
			t.Errorf("%d claims while paused", tab.claims-before)
		}
	})
	must.Do(t, f.worker.Continue(nil, "me"))
	f.next().exit(0)
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
