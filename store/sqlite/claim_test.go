package sqlite_test

import (
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Regression: a row with the least id that there is waited for ever, and nobody was told: claims
// began behind it.
func TestTheRowWithTheLeastIDIsClaimed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path}))
	must.Do(t, table.Check(t.Context()))
	ids := []int64{math.MinInt64, math.MinInt64 + 1, 7, math.MaxInt64}
	db := application(t, path)
	for _, id := range ids {
		exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (?, 'a', 1)", id)
	}
	var seen []int64
	look := func(rows []journal.Row) ([]journal.Event, error) {
		seen = nil
		for _, row := range rows {
			seen = append(seen, row.Job)
		}
		return nil, nil
	}
	if err := table.Claim(t.Context(), map[string]int{"a": 9}, []int64{math.MinInt64}, look); err != nil || !slices.Equal(seen, ids[1:]) {
		t.Errorf("all but the least id: %v, %v", seen, err)
	}
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 9}, nil, func(rows []journal.Row) (events []journal.Event, _ error) {
		for _, row := range rows {
			events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: row.Target, Token: "@abcd01234"}})
		}
		return events, nil
	}))
	rows, _, err := table.Rows(t.Context(), ids)
	statuses := map[int64]string{}
	for _, row := range rows {
		statuses[row.Job] = row.Status
	}
	want := map[int64]string{math.MinInt64: "accepted", math.MinInt64 + 1: "accepted", 7: "accepted", math.MaxInt64: "accepted"}
	if err != nil || !maps.Equal(statuses, want) {
		t.Errorf("rows are %v, %v; want %v", statuses, err, want)
	}
}

// Statements that a connection has prepared once see what the application makes of its table meanwhile.
func TestStatementsFollowTheTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path}))
	must.Do(t, table.Check(t.Context()))
	db := application(t, path)
	exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', 1)")
	claim := func(want ...int64) {
		t.Helper()
		var seen []int64
		err := table.Claim(t.Context(), map[string]int{"a": 9}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			for _, row := range rows {
				seen = append(seen, row.Job)
			}
			return nil, nil
		})
		if err != nil || !slices.Equal(seen, want) {
			t.Errorf("jobs %v, %v; want %v", seen, err, want)
		}
	}
	claim(7)
	exec(t, db, "ALTER TABLE jobs ADD COLUMN customer TEXT")
	exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (8, 'a', 1)")
	claim(7, 8)
	exec(t, db, "ALTER TABLE jobs RENAME TO former")
	exec(t, db, "CREATE TABLE jobs AS SELECT * FROM former WHERE id = 8")
	exec(t, db, "DROP TABLE former")
	claim(8)
}

// tableOf makes a table with n running jobs.
func tableOf(t *testing.T, n int) (*sqlite.Table, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path}))
	db := application(t, path)
	for range n {
		exec(t, db, "INSERT INTO jobs (target, time_created, status, sig) VALUES ('a', 1, 'running', ?)", token)
	}
	return table, path
}

func doneJobs(n int) (changes []store.Change) {
	for id := range int64(n) {
		changes = append(changes, store.Change{Job: id + 1, Token: token, Status: journal.RowDone, Done: &journal.Done{Result: "ok"}})
	}
	return changes
}

// A trigger may end the whole transaction, fail with the code of a broken statement, or skip rows:
// only its rows are held up, and nothing counts as applied that is not in the table.
func TestTriggerOfEveryKind(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, body string
		fate       store.Fate
	}{
		{"ABORT", "SELECT RAISE(ABORT, 'no')", store.Refused},
		{"FAIL", "SELECT RAISE(FAIL, 'no')", store.Refused},
		{"ROLLBACK", "SELECT RAISE(ROLLBACK, 'no')", store.Refused},
		{"IGNORE", "SELECT RAISE(IGNORE)", store.Held},
		{"an error of its own", "SELECT json('{')", store.Held},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const n = 20
			table, path := tableOf(t, n)
			db := application(t, path)
			exec(t, db, "CREATE TRIGGER rule BEFORE UPDATE ON jobs WHEN NEW.id IN (5, 6, 17) BEGIN "+c.body+"; END")
			got := must.Get(table.Apply(t.Context(), doneJobs(n)))(t)
			for i, outcome := range got {
				job, status := int64(i+1), "done"
				want := store.Applied
				if slices.Contains([]int64{5, 6, 17}, job) {
					want, status = c.fate, "running"
				}
				var now string
				must.Do(t, db.QueryRow("SELECT status FROM jobs WHERE id = ?", job).Scan(&now))
				if outcome.Fate != want || now != status || want != store.Applied && outcome.Note == "" {
					t.Errorf("job %d is %s: %+v; want fate %d", job, now, outcome, want)
				}
				if want == store.Refused && (outcome.Found == nil || outcome.Found.Status != "running") {
					t.Errorf("job %d: found %+v, want the row as it is", job, outcome.Found)
				}
			}
		})
	}
}

// A trigger that no update gets past makes the table unusable; it is said as long as it is so.
func TestTriggerThatBreaksTheTable(t *testing.T) {
	t.Parallel()
	table, path := tableOf(t, 3)
	db := application(t, path)
	exec(t, db, "CREATE TRIGGER broken BEFORE UPDATE ON jobs BEGIN INSERT INTO nowhere VALUES (1); END")
	var unusable *store.Unusable
	for range 2 {
		if _, err := table.Apply(t.Context(), doneJobs(3)); !errors.As(err, &unusable) {
			t.Errorf("Apply: %v; want the table to be unusable", err)
		}
	}
	exec(t, db, "DROP TRIGGER broken")
	if got, err := table.Apply(t.Context(), doneJobs(3)); err != nil || got[0] != (store.Outcome{}) {
		t.Errorf("without the trigger: %v, %v", got, err)
	}
}

// Regression: a NULL in any column made the mirror repeat a Scan error for ever, after a restart
// too. In SQLite a text may stand in a column of numbers as well.
func TestAnythingInAnyColumn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := application(t, path)
	exec(t, db, "CREATE TABLE jobs (id INTEGER PRIMARY KEY, target, time_created, time_started, time_finished, status, result, return_code, sig, stdout, stderr)")
	exec(t, db, `INSERT INTO jobs (id, target, time_created, time_started, time_finished, status, result, sig) VALUES
		(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
		(2, 'a', 'yesterday', 'today', '12 o''clock', 'done', 'ok', 7),
		(3, 5, x'00ff', 1.5, x'3132', 'done', 6, NULL),
		(4, 'a', NULL, 'soon', NULL, 'running', 'x', '@abcd01234')`)
	for _, name := range []string{"at first", "after a restart"} {
		table := open(t, sqlite.Config{Path: path})
		got, err := table.Apply(t.Context(), doneJobs(4))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []store.Outcome{
			{Fate: store.Lost, Found: &journal.Row{Job: 1, Target: "null"}},
			{Fate: store.Lost, Found: &journal.Row{Job: 2, Target: "a", Status: "done", Owner: "7"}},
			{Fate: store.Lost, Found: &journal.Row{Job: 3, Target: "5", Status: "done"}},
			{},
		}
		check.Diff(t, want, got, "%s: outcomes", name)
		seen, err := table.Look(t.Context(), []int64{1, 2, 3, 4})
		if err != nil || len(seen) != 4 {
			t.Fatalf("%s: Look: %v, %v", name, seen, err)
		}
		if seen[2].Created != 0 || seen[2].Finished != 12 || seen[3].Finished != 12 || seen[3].Started != 1 {
			t.Errorf("%s: %+v, %+v", name, seen[2], seen[3])
		}
		must.Do(t, table.Close())
	}
}

// Where there is a device is no place for a table.
func TestPlacesThatTakeNoFile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/dev/null", "/dev/full"} {
		found, _, err := sqlite.Glance(t.Context(), sqlite.Config{Path: path, Table: "jobs", ClaimColumn: "sig", Worker: "w"}, nil)
		if err != nil || len(found) != 1 || found[0].Severity != store.Fault {
			t.Errorf("%s: %+v, %v, want one fault", path, found, err)
		}
	}
}
