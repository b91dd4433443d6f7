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
