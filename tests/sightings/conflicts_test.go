package sightings

import (
	"os/exec"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The table refuses to have a row changed to done. That row is told as set aside, with the reason, and is in no list
// of rows that are gone; one that was deleted is.
func TestARefusedRowIsNotToldAsGone(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1, 2)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2})).StartWorker(t)
	insert(t, db, "a", "waiting", 1, 2)
	poll(t, worker)
	l.awaitStarts(t, 2)
	awaitCount(t, db, 2, "status = 'running'")
	db.Exec(t, "CREATE TRIGGER refuses BEFORE UPDATE ON jobs FOR EACH ROW IF NEW.id = 1 AND NEW.status = 'done' THEN "+
		"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF")
	db.Exec(t, "DELETE FROM jobs WHERE id = 2")
	l.letGo(t)
	await(t, func() string { return missingAside(t, worker, "not this one", 1) })
	await(t, func() string {
		conflicts, err := ctl(t, worker, "journal", "conflicts")
		if err != nil {
			t.Fatalf("jobctl journal conflicts: %v: %s", err, conflicts)
		}
		if strings.Count(conflicts, "no row") != 1 || !strings.Contains(conflicts, " 2 ") {
			return "of two rows, one of which is gone, it is told: " + conflicts
		}
		return ""
	})
	log, err := ctl(t, worker, "journal", "log", "--job", "1", "--kind", "set-aside")
	if err != nil || strings.Count(log, "not this one") != 1 {
		t.Errorf("the journal tells of the row that is refused: %v: %s", err, log)
	}
	db.Exec(t, "DROP TRIGGER refuses")
	awaitCount(t, db, 1, "id = 1 AND status = 'done' AND result = 'ok'")
}

// A conflict whose update was refused, as there are in older journals, is of a row that exists.
func TestConflictsTellARowThatExists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir}))(t)
	for job, conflict := range []journal.Conflict{{Wanted: "done"}, {Wanted: "done", Reason: "not this one"}} {
		for _, payload := range []journal.Payload{journal.Accepted{Target: "a", Token: "@mark12345"}, conflict} {
			must.Get(j.Append(journal.Draft{Job: int64(job) + 100, Payload: payload}))(t)
		}
	}
	must.Do(t, j.Close())
	out, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), "--config=", "journal", "conflicts", "--journal", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("jobctl journal conflicts: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		gone := strings.Contains(line, "no row")
		if strings.Contains(line, " 100 ") && !gone || strings.Contains(line, " 101 ") && gone {
			t.Errorf("wrong: %s", line)
		}
	}
	if !strings.Contains(string(out), " 100 ") || !strings.Contains(string(out), " 101 ") {
		t.Errorf("both conflicts are expected: %s", out)
	}
}
