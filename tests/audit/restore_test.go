package audit

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// restoreJobs is how much work lies between backup and restore: with 36000, an hour of ten jobs a second.
var restoreJobs = flag.Int("restore", 1000, "jobs of TestReapplyAfterARestoreUnderLoad")

// content is the whole table, every column of every row.
func content(t *testing.T, db *harness.Database) map[int64]string {
	t.Helper()
	rows := must.Get(db.Admin.QueryContext(t.Context(), "SELECT * FROM jobs"))(t)
	defer rows.Close()
	columns := must.Get(rows.Columns())(t)
	all := make(map[int64]string)
	for rows.Next() {
		values := make([]sql.RawBytes, len(columns)-1)
		var id int64
		into := []any{&id}
		for i := range values {
			into = append(into, &values[i])
		}
		must.Do(t, rows.Scan(into...))
		var text strings.Builder
		for i, value := range values {
			fmt.Fprintf(&text, "%s=%q(%t) ", columns[i+1], value, value == nil)
		}
		all[id] = text.String()
	}
	must.Do(t, rows.Err())
	return all
}

// expectContent compares the table with what it was, row by row.
func expectContent(t *testing.T, when string, got, want map[int64]string) {
	t.Helper()
	different := 0
	for id, row := range want {
		if got[id] == row {
			continue
		}
		if different++; different <= 5 {
			t.Errorf("%s: row %d is\n%s\nand was\n%s", when, id, got[id], row)
		}
	}
	if different > 0 || len(got) != len(want) {
		t.Fatalf("%s: %d of %d rows differ; there are %d", when, different, len(want), len(got))
	}
}

// backup copies the table as it is at one moment, beside the workers.
func backup(t *testing.T, db *harness.Database) {
	t.Helper()
	conn := must.Get(db.Admin.Conn(t.Context()))(t)
	defer conn.Close()
	for _, statement := range []string{
		"CREATE TABLE kept LIKE jobs",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", // else the copy would lock all rows
		"INSERT INTO kept SELECT * FROM jobs",
	} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func restore(t *testing.T, db *harness.Database) {
	t.Helper()
	tx := must.Get(db.Admin.BeginTx(t.Context(), nil))(t)
	for _, statement := range []string{"DELETE FROM jobs", "INSERT INTO jobs SELECT * FROM kept"} {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	must.Do(t, tx.Commit())
}

// counting is a launcher that notes each start in a file, and fails for ids that 4 divides.
func counting(t *testing.T) (settings harness.Settings, starts string) {
	t.Helper()
	starts = filepath.Join(t.TempDir(), "starts")
	return harness.Settings{
		"launcher":       `/bin/sh -c 'echo $0 >> ` + starts + `; echo job $0; test $(( $0 % 4 )) != 0' {id}`,
		"launcher_split": "shell",
	}, starts
}

// expectEachOnce checks that every job from 1 to n was started, and none twice.
func expectEachOnce(t *testing.T, starts string, n int) {
	t.Helper()
	content := must.Get(os.ReadFile(starts))(t)
	ids := strings.Fields(string(content))
	seen := make(map[string]bool)
	for _, id := range ids {
		if seen[id] {
			t.Errorf("job %s was started twice", id)
		}
		seen[id] = true
	}
	if len(seen) != n {
		t.Errorf("%d jobs were started, not %d", len(seen), n)
	}
}

// site is two workers on the same target, and their master.
type site struct {
	db     *harness.Database
	master *harness.Daemon
	starts string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{db: harness.NewDatabase(t), master: harness.StartMaster(t)}
	launcher, starts := counting(t)
	s.starts = starts
	for _, name := range []string{"node-1", "node-2"} {
		s.db.Worker(t, name, "", map[string]int{"mail": 4}).With(launcher, harness.MasterOf(s.master)).StartWorker(t)
	}
	harness.AwaitWorkers(t, s.master, "", 2)
	return s
}

func (s *site) ctl(t *testing.T, code int, words []string, args ...string) string {
	t.Helper()
	return expect(t, code, words, s.master.Addr, append([]string{"--master"}, args...)...)
}

// quiet pauses the workers, and waits until nothing runs and the table shows all that they know.
func (s *site) quiet(t *testing.T) {
	t.Helper()
	s.ctl(t, 0, nil, "pause")
	s.db.AwaitCount(t, 0, "status = 'running'")
	harness.Until(t, func() string {
		if stdout, stderr, code := ctl(t, s.master.Addr, "--master", "journal", "diff"); code != 0 || strings.Contains(stdout, "node-") {
			return "journals and table differ: " + stdout + stderr
		}
		return ""
	})
}

// The table is lost while two workers drain it, and restored from a backup that was made in the middle. What their
// journals know brings it back row by row, with an account that may only SELECT and UPDATE; then the work goes on, and nothing
// is done twice.
func TestReapplyAfterARestoreUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	db, n := s.db, *restoreJobs
	expectAccount(t, db)
	db.InsertMany(t, n, "mail", "waiting")
	s.ctl(t, 0, nil, "poke", "mail")
	awaitDone(t, db, n/5)
	before := time.Now()
	backup(t, db)
	awaitDone(t, db, n*3/5)
	s.quiet(t)
	want := content(t, db)
	restore(t, db)
	restored := content(t, db)
	since := fmt.Sprint(before.Add(-time.Minute).Unix())

	s.ctl(t, 0, []string{"node-1", "node-2", "would apply"}, "journal", "reapply", "--since", since, "--dry-run")
	expectContent(t, "after a dry run", content(t, db), restored)
	begun := time.Now()
	s.ctl(t, 0, []string{"node-1", "node-2", "applied"}, "journal", "reapply", "--since", since)
	changed := 0
	for id, row := range restored {
		if want[id] != row {
			changed++
		}
	}
	t.Logf("%d rows reapplied, %.0f a second", changed, float64(changed)/time.Since(begun).Seconds())
	expectContent(t, "after reapply", content(t, db), want)
	s.ctl(t, 0, nil, "journal", "diff")
	if again := s.ctl(t, 0, nil, "journal", "reapply"); strings.Contains(again, "node-") {
		t.Errorf("a second reapply found something to do:\n%s", again)
	}

	s.ctl(t, 0, nil, "continue")
	s.ctl(t, 0, nil, "poke", "mail")
	awaitDone(t, db, n)
	expectEachOnce(t, s.starts, n)
	s.ctl(t, 0, nil, "journal", "verify")
}

// awaitDone waits until at least n jobs are done, for as long as any progress is made.
func awaitDone(t *testing.T, db *harness.Database, n int) {
	t.Helper()
	for done := 0; done < n; {
		before := done
		harness.Until(t, func() string {
			if done = db.Count(t, "status = 'done'"); done < n && done == before {
				return fmt.Sprintf("%d of %d are done", done, n)
			}
			return ""
		})
	}
}

// expectAccount checks that the daemons' account can neither insert nor delete a row.
func expectAccount(t *testing.T, db *harness.Database) {
	t.Helper()
	rows := must.Get(db.Admin.QueryContext(t.Context(), "SELECT DISTINCT PRIVILEGE_TYPE FROM information_schema.TABLE_PRIVILEGES WHERE GRANTEE LIKE ? AND TABLE_SCHEMA = ?", "'"+db.Account.User+"'@%", db.Name))(t)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		must.Do(t, rows.Scan(&one))
		all = append(all, one)
	}
	if text := strings.Join(all, " "); rows.Err() != nil || text != "SELECT UPDATE" && text != "UPDATE SELECT" {
		t.Fatalf("the account may %q, and SELECT and UPDATE is what it should; %v", text, rows.Err())
	}
}

// While jobs run and are claimed there is nothing to reapply: what is on its way to the table arrives by itself, and
// nothing newer is undone.
func TestReapplyBesideRunningJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const n = 200
	s.db.InsertMany(t, n, "mail", "waiting")
	s.ctl(t, 0, nil, "poke", "mail")
	for s.db.Count(t, "status = 'done'") < n {
		s.ctl(t, 0, nil, "journal", "reapply")
	}
	s.quiet(t)
	expectEachOnce(t, s.starts, n)
	if found := s.ctl(t, 0, nil, "journal", "conflicts", "--output", "json"); found != "" {
		t.Errorf("reapply came between the workers and their rows:\n%s", found)
	}
	s.ctl(t, 0, nil, "journal", "verify")
}
