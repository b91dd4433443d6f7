package exec_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Regression: a worker with two slots claimed two rows at a time, however fast its jobs went, and so eight
// such workers cost the database five times as many transactions as one with all of their slots.
func TestShortJobsAreClaimedManyAtATime(t *testing.T) {
	t.Parallel()
	const rows = 400
	claims := func(prefetch int) int {
		tab := newTable()
		for id := range int64(rows) {
			tab.insert(waiting(id+1, "a"))
		}
		f := newFixture(t, tab, func(c *jobexec.Config) { c.Prefetch = prefetch })
		f.runner.instant = true
		f.start()
		f.wait("all are done", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq > 2*rows })
		tab.mu.Lock()
		defer tab.mu.Unlock()
		return tab.claims
	}
	asConfigured, by := claims(2), claims(-1)
	if by*2 > asConfigured {
		t.Errorf("%d rows took %d claims, and %d of two rows beyond the slots", rows, by, asConfigured)
	}
}

// Regression: of two jobs that were started together and ended together each had a turn of its own, which
// is a transaction for each of them, and for each that follows.
func TestJobsThatAreStartedTogetherShareATurn(t *testing.T) {
	t.Parallel()
	const pairs = 40
	tab, counted := newTable(), &countedEnds{}
	f := newFixture(t, tab, func(c *jobexec.Config) {
		counted.Recorder = c.Recorder
		c.Recorder = counted
	})
	f.start()
	for pair := range int64(pairs) {
		tab.insert(waiting(2*pair+1, "a"))
		tab.insert(waiting(2*pair+2, "a"))
		must.Do(t, f.worker.Poll(nil))
		first, second := f.next(), f.next()
		first.exit(0)
		second.exit(0)
		f.wait("both are done", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq > 1 })
	}
	if turns := counted.turns.Load(); turns > pairs*3/2 {
		t.Errorf("%d jobs ended in %d turns", 2*pairs, turns)
	}
}

// countedEnds is a journal that counts the appends in which jobs end.
type countedEnds struct {
	jobexec.Recorder
	turns atomic.Int64
}

func (c *countedEnds) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	if slices.ContainsFunc(drafts, func(d journal.Draft) bool { _, is := d.Payload.(journal.Done); return is }) {
		c.turns.Add(1)
	}
	return c.Recorder.Append(drafts...)
}

// What was claimed ahead of jobs that then take long is given back, all of it, so that another worker can run
// it; and nothing more is claimed ahead of such jobs.
func TestWhatWasClaimedAheadIsGivenBack(t *testing.T) {
	t.Parallel()
	tab := newTable()
	for id := range int64(2000) {
		tab.insert(waiting(id+1, "a"))
	}
	f := newFixture(t, tab, func(c *jobexec.Config) { c.Prefetch = -1 })
	f.start()
	ahead := func() int { return f.worker.Status().Targets["a"].Prefetched }
	for ahead() <= 2 {
		f.next().exit(0)
	}
	one := f.next()
	f.next() // these two run for long
	f.wait("all others are released", func(s *journal.State) bool { return len(s.Jobs) == 2 })
	one.exit(0)
	f.next()
	f.until("a slot has another job, and none waits for one", func(s jobexec.Status) bool { return s.Targets["a"].Running == 2 })
	if n := ahead(); n != 0 {
		t.Errorf("%d jobs are claimed ahead of long ones", n)
	}
	f.stop() // nothing more starts when these two end
}

// Without the table nobody else could run what is given back: it waits here, and is started if so configured.
func TestNothingIsGivenBackWhileTheTableIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		for id := range int64(100) {
			tab.insert(waiting(id+1, "a"))
		}
		f := newFixture(t, tab, func(c *jobexec.Config) { c.Prefetch, c.LaunchOffline = -1, true })
		f.start()
		ahead := func() int { return f.worker.Status().Targets["a"].Prefetched }
		one, _ := f.next(), f.next()
		for ahead() < 2 {
			one.exit(0)
			one = f.next()
			synctest.Wait()
		}
		f.mirror.setAway(true)
		time.Sleep(time.Minute)
		check.Equal(t, ahead(), 2, "jobs that wait while the table is away")
		one.exit(0)
		f.next()
		f.mirror.setAway(false)
		f.worker.PollAll()
		time.Sleep(999 * time.Millisecond)
		check.Equal(t, ahead(), 1, "jobs that wait when it is back")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		check.Equal(t, ahead(), 0, "jobs that wait a second later")
		f.stop() // nothing more starts when the others end
	})
}
