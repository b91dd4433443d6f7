package audit

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A backup that is older than the table: rows as they were before they were claimed, in the middle of it, and
// one that somebody else has. What the journal knows comes back; what it does not know stays as found. The worker's account may
// only SELECT and UPDATE.
func TestReapplyAfterABackupWasRestored(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker, _ := start(t, db, "node-1", "mail", 1, 12)
	client := harness.Dial(t, worker.Addr)
	var answer string
	var opened struct {
		Cursor string `json:"cursor"`
	}
	client.Ask(t, "pause", nil).Decode(t, &answer)
	before := rows(t, db)

	log, _, _ := ctl(t, worker.Addr, "journal", "log", "--job", "3", "--kind", "accepted")
	_, token, _ := strings.Cut(strings.TrimSpace(log), "token=")
	db.Exec(t, "UPDATE jobs SET status = 'waiting', sig = NULL, result = NULL, return_code = NULL, time_started = 0, time_finished = 0, stdout = NULL, stderr = NULL WHERE id IN (1, 2, 4, 6, 8)")
	db.Exec(t, "UPDATE jobs SET status = 'accepted', sig = ?, result = NULL, return_code = NULL, time_started = 0, time_finished = 0, stdout = NULL, stderr = NULL WHERE id = 3", token)

	expect(t, 1, []string{"changed", "rows that somebody else changed: 6"}, worker.Addr, "journal", "diff")
	expect(t, 0, []string{"would apply"}, worker.Addr, "journal", "reapply", "--dry-run")
	must.Equal(t, db.Count(t, "status = 'waiting'"), 5, "after a dry run … rows are waiting, not 5")
	expect(t, 0, nil, worker.Addr, "journal", "reapply", "--since", "2100-01-01")
	must.Equal(t, db.Count(t, "status = 'waiting'"), 5, "nothing happened since 2100, and … rows are waiting, not 5")
	expect(t, 0, []string{"applied"}, worker.Addr, "journal", "reapply", "--yes")
	check.Equal(t, rows(t, db), before, "the table is … and was")
	expect(t, 0, nil, worker.Addr, "journal", "diff")

	// A table that is pruned.
	db.Exec(t, "CREATE TABLE pruned AS SELECT * FROM jobs WHERE id = 7")
	db.Exec(t, "DELETE FROM jobs WHERE id = 7")
	expect(t, 1, []string{"no row", "rows that somebody else changed: 1"}, worker.Addr, "journal", "diff")
	expect(t, 0, nil, worker.Addr, "journal", "diff", "--ignore-deleted")
	client.Ask(t, "journal-diff", map[string]any{"ignore_deleted": true}).Decode(t, &opened)
	if page := string(client.Ask(t, "journal-next", opened).Data); page != `{"items":[],"more":false}` {
		t.Errorf("the worker tells of a pruned row: %s", page)
	}
	for request, want := range map[string]int{`{"last":2,"target":"mail"}`: 2, `{"target":"other"}`: 0, `{"since":"2100-01-01T00:00:00Z"}`: 0, `{"last":20000}`: 12} {
		client.Ask(t, "journal-state", json.RawMessage(request)).Decode(t, &opened)
		if page := string(client.Ask(t, "journal-next", opened).Data); strings.Count(page, `"job":`) != want {
			t.Errorf("%s: want %d jobs, got %s", request, want, page)
		}
	}
	db.Exec(t, "INSERT INTO jobs SELECT * FROM pruned")

	// What the journal does not know is left as found.
	for _, change := range []string{
		"UPDATE jobs SET status = 'running', sig = '@zzzzzzzzz' WHERE id = 1",
		"UPDATE jobs SET time_finished = 5, result = 'fail' WHERE id = 2",
		"UPDATE jobs SET status = 'waiting' WHERE id = 3", // set back by hand: time_finished tells
		"UPDATE jobs SET target = 'other', status = 'waiting', time_finished = 0 WHERE id = 4",
		"UPDATE jobs SET status = 'manual', time_finished = 0 WHERE id = 5",
		"DELETE FROM jobs WHERE id = 6",
	} {
		db.Exec(t, change)
	}
	before = rows(t, db)
	expect(t, 1, []string{
		"which is no claim of this journal", "done otherwise than the journal says", "set back by hand after the journal's claim",
		"its target is 'other'", "unlike the row that the journal claimed", "rows are never inserted", "refused, and left as found: 6",
	}, worker.Addr, "journal", "reapply", "--yes")
	check.Equal(t, rows(t, db), before, "refused rows were changed: … were")
}

// rows is the whole table as text.
func rows(t *testing.T, db *harness.Database) string {
	t.Helper()
	var text strings.Builder
	for id := int64(1); id <= 12; id++ {
		if db.Count(t, "id = ?", id) > 0 {
			text.WriteString(db.Row(t, id).String() + "\n")
		}
	}
	return text.String()
}

// The worker is killed while it reapplies, again and again; the next reapply goes on from whatever step it got to.
func TestReapplyKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	const n = 1000
	worker, settings := start(t, db, "node-1", "mail", 1, n)
	log, _, _ := ctl(t, worker.Addr, "journal", "log", "--kind", "accepted")
	want := checksum(t, db)
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	db.Exec(t, "UPDATE jobs SET status = 'waiting', sig = NULL, result = NULL, return_code = NULL, time_started = 0, time_finished = 0, stdout = NULL, stderr = NULL")
	for line := range strings.Lines(log) { // the states in which a kill may leave a row
		id := strings.Fields(strings.SplitAfter(line, " job ")[1])[0]
		_, token, _ := strings.Cut(strings.TrimSpace(line), "token=")
		switch id {
		case "999":
			db.Exec(t, "UPDATE jobs SET status = 'accepted', sig = ? WHERE id = 999", token)
		case "1000":
			db.Exec(t, "UPDATE jobs SET status = 'running', sig = ?, time_started = 5 WHERE id = 1000", token)
		}
	}
	idle := settings.Without("[targets] mail").With(harness.Targets(map[string]int{"other": 1})) // it claims nothing of this
	for round := 1; round <= 4; round++ {
		worker := idle.StartWorker(t)
		stop := make(chan int, 1)
		go func() {
			_, _, code := ctl(t, worker.Addr, "journal", "reapply", "--yes")
			stop <- code
		}()
		harness.Until(t, func() string {
			if db.Count(t, "status = 'done'") < 150*round {
				return "nothing is reapplied"
			}
			return ""
		})
		worker.Kill(t)
		if code := <-stop; code == 0 {
			t.Errorf("round %d: the worker was killed, and the exit code is 0", round)
		}
	}
	if left := db.Count(t, "status <> 'done'"); left == 0 {
		t.Error("all was done before the last kill")
	}
	worker = idle.StartWorker(t)
	expect(t, 0, nil, worker.Addr, "journal", "reapply", "--yes")
	check.Equal(t, checksum(t, db), want, "the table is not what it was")
	expect(t, 0, []string{"verified: "}, worker.Addr, "journal", "verify")
}

// checksum tells one content of the table from another, in all columns of all rows.
func checksum(t *testing.T, db *harness.Database) (sum string) {
	t.Helper()
	var table string
	must.Do(t, db.Admin.QueryRowContext(t.Context(), "CHECKSUM TABLE jobs").Scan(&table, &sum))
	return sum
}
