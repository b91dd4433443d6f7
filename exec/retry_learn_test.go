package exec_test

import (
	"context"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

// What rows were before, the journal tells: that takes nothing of the time for the table.
func TestTheTimeForTheTableIsNotSpentOnTheJournal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(endedRow(1, "a", journal.RowDone), endedRow(2, "a", journal.RowIgnored)), nil)
	f.build(func(c *jobexec.Config) {
		c.WasManual = func(ctx context.Context, job int64) bool {
			if _, limited := ctx.Deadline(); limited {
				t.Error("looking into the journal is limited by the table's time")
			}
			return job == 2
		}
		c.OnRetried = func([]string) {}
	})
	f.start()
	f.setBack(jobexec.RetryWish{IDs: []int64{1, 2}}, jobexec.Answer[string]{Jobs: map[int64]string{1: "waiting", 2: "manual"}})
}
