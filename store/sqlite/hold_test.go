package sqlite_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest/must"
)

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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: outcomes (-want +got):\n%s", name, diff)
		}
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
