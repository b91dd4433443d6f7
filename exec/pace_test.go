package exec_test

import (
	"slices"
	"sync/atomic"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
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

// What was claimed ahead of jobs that then take long is given back, so that another worker can run it.
func TestWhatWasClaimedAheadIsGivenBack(t *testing.T) {
	t.Parallel()
	tab := newTable()
	for id := range int64(2000) {
		tab.insert(waiting(id+1, "a"))
	}
	f := newFixture(t, tab, nil)
	f.start()
	ahead := func() int { return f.worker.Status().Targets["a"].Prefetched }
	for ahead() <= 2 {
		f.next().exit(0)
	}
	f.next()
	f.next() // these two run for long
	f.until("one a slot is left", func(jobexec.Status) bool { return ahead() == 2 })
	f.wait("the others are released", func(s *journal.State) bool { return len(s.Jobs) == 4 })
	f.stop() // nothing more starts when these two end
}
