package exec_test

import (
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

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
