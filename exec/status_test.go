package exec_test

import (
	"testing"

	jobexec "jobd/exec"
)

// What runs, what waits for a slot, and what was started and ended lately, is counted by target.
func TestStatusCountsJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "b")), nil)
	f.start()
	until := func(what string, a, b [5]int) {
		t.Helper()
		f.until(what, func(s jobexec.Status) bool { return counts(s.Targets["a"]) == a && counts(s.Targets["b"]) == b })
	}
	jobs := map[int64]*process{}
	for range 3 {
		p := f.next()
		jobs[p.spec.Job] = p
	}
	until("two of a run, and one waits", [5]int{2, 1, 2, 0, 0}, [5]int{1, 0, 1, 0, 0})
	jobs[1].exit(7)
	jobs[4].exit(0)
	f.next()
	until("one has failed", [5]int{2, 0, 3, 1, 1}, [5]int{0, 0, 1, 1, 0})
}

func counts(t jobexec.TargetStatus) [5]int {
	return [5]int{t.Running, t.Prefetched, t.Started, t.Ended, t.Failed}
}

// Of a worker that has nothing to do nobody would notice that its table is out of reach: a lost
// connection makes it look.
func TestAnIdleWorkerNoticesThatItsTableIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	f.until("it has its name", func(s jobexec.Status) bool { return f.looked() && s.Outage == nil })
	f.table.change(func() { f.table.holdErr = errAway })
	f.worker.LookAtTable()
	f.until("it is away", func(s jobexec.Status) bool {
		return s.Outage != nil && s.Outage.Away && s.Outage.Why == "connection refused" && !s.Outage.Since.IsZero() && s.Returned.IsZero()
	})
	f.table.insert(waiting(1, "a"))
	f.table.change(func() { f.table.holdErr = nil })
	f.next().exit(0) // it polls
	f.until("it is back", func(s jobexec.Status) bool { return s.Outage == nil && !s.Returned.IsZero() })
}

// looked tells whether the table was asked for rows.
func (f *fixture) looked() bool {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return f.table.claims > 0
}
