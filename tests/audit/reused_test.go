package audit

import (
	"testing"

	"jobd/tests/harness"
)

// After a failover to a replica that had lagged, old ids were given out again, and reapply marked 100 new jobs as done that
// had never run. A row that was created later than the journal's claim is another job: diff and reapply say so, and leave it
// alone. A row that is the journal's own is reapplied beside it.
func TestReapplyLeavesNewJobsWithOldIdsAlone(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker, _ := start(t, db, "node-1", "mail", 1, 12)
	var answer string
	harness.Dial(t, worker.Addr).Ask(t, "pause", nil).Decode(t, &answer)
	whole := db.Row(t, 3).String()
	db.Exec(t, "DELETE FROM jobs WHERE id IN (1, 2)")
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (1, 'mail', UNIX_TIMESTAMP() + 5, 'waiting'), (2, 'mail', UNIX_TIMESTAMP() + 5, 'manual')")
	db.Exec(t, blank+"id = 3")
	left := db.Row(t, 1).String() + db.Row(t, 2).String()

	const other = "it was created after the journal's claim: another job with the same id"
	expect(t, 1, []string{"other", other, "rows that somebody else changed: 1"}, worker.Addr, "journal", "diff")
	expect(t, 1, []string{"applied", other, "refused, and left as found: 2"}, worker.Addr, "journal", "reapply")
	if got := db.Row(t, 1).String() + db.Row(t, 2).String(); got != left {
		t.Errorf("the new jobs are\n%s\nand were\n%s", got, left)
	}
	if got := db.Row(t, 3).String(); got != whole {
		t.Errorf("row 3 is\n%s\nand was\n%s", got, whole)
	}
	expect(t, 0, []string{other}, worker.Addr, "journal", "diff")
}
