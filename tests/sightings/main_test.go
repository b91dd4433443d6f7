package sightings

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the application's driver

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 6) } // nearly all of them wait nearly all of the time

// size is a number that depends on the form: TORTURE=long chooses the long one.
func size(short, inLong int) int {
	if os.Getenv("TORTURE") == "long" {
		return inLong
	}
	return short
}

// rows is a jobs table as its application reaches it.
type rows interface {
	Exec(t testing.TB, statement string, args ...any)
	Count(t testing.TB, where string, args ...any) int
}

// insert adds rows as the application does.
func insert(t *testing.T, r rows, target, status string, ids ...int64) {
	t.Helper()
	values := make([]string, len(ids))
	args := make([]any, 0, 4*len(ids))
	for i, id := range ids {
		values[i] = "(?, ?, ?, ?)"
		args = append(args, id, target, time.Now().Unix(), status)
	}
	r.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES "+strings.Join(values, ", "), args...)
}

// span is the ids from one to another.
func span(from, to int64) []int64 {
	ids := make([]int64, 0, to-from+1)
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

// awaitCount waits until a condition holds for n rows.
func awaitCount(t *testing.T, r rows, n int, where string, args ...any) {
	t.Helper()
	harness.Until(t, func() string {
		if got := r.Count(t, where, args...); got != n {
			return fmt.Sprintf("%d rows, not %d, where %s", got, n, where)
		}
		return ""
	})
}

// poll asks a worker once, as an operator does, and waits for its answer, not for its effect.
func poll(t *testing.T, worker *harness.Daemon) {
	t.Helper()
	client := harness.Dial(t, worker.Addr)
	defer client.Close()
	var answer string
	if client.Ask(t, "poll", nil).Decode(t, &answer); answer != "ok" {
		t.Fatalf("poll is answered with %q", answer)
	}
}

// timesOf are the times of these events.
func timesOf(t *testing.T, s harness.Settings, job int64, kinds ...journal.Kind) (times []time.Time) {
	t.Helper()
	for _, e := range harness.Events(t, s, kinds...) {
		if job < 0 || e.Job == job {
			times = append(times, e.Time)
		}
	}
	return times
}

// remove takes the table's file away, with what SQLite keeps beside it.
func (f *file) remove(t *testing.T, to string) {
	t.Helper()
	f.db.Close()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(f.path+end, to+end); err != nil && (end == "" || !os.IsNotExist(err)) {
			t.Fatal(err)
		}
	}
}

// Another file is put in the place of the table's: the log says so, and its rows are run.
func TestSQLiteFileReplaced(t *testing.T) {
	t.Parallel()
	f, other, l := newFile(t), newFile(t), harness.NewOracle(t, "")
	worker := f.worker(t, l.Command, map[string]int{"a": 2}).StartWorker(t)
	insert(t, f, "a", "waiting", 1)
	poll(t, worker)
	awaitCount(t, f, 1, "status = 'done'")
	insert(t, other, "a", "waiting", span(10, 19)...)
	told := len(worker.Output())
	f.remove(t, t.TempDir()+"/old.db")
	other.remove(t, f.path)
	again := reopen(t, f.path)
	poll(t, worker)
	awaitCount(t, again, 10, "status = 'done' AND result = 'ok'")
	check.Contains(t, worker.Output()[told:], f.path, "the log does not say that the file is another one")
	l.ExpectOnce(t, 11)
}

// missingAside tells what is missing where a worker does not list a row as set aside with the reason.
func missingAside(t *testing.T, worker *harness.Daemon, reason string, job int64) string {
	t.Helper()
	var status struct {
		Aside []struct {
			Job    int64
			Reason string
		}
	}
	client := harness.Dial(t, worker.Addr)
	defer client.Close()
	client.Ask(t, "status", nil).Decode(t, &status)
	for _, row := range status.Aside {
		if row.Job == job && strings.Contains(row.Reason, reason) {
			return ""
		}
	}
	return fmt.Sprintf("%d is not set aside because of %q: %v", job, reason, status.Aside)
}

// triedEverMoreRarely checks that a row that can't be claimed is tried once with others, once alone, and
// then after 1 s, 2 s, 4 s and so on, whatever is polled meanwhile; and that the journal has three events of
// each try at most.
func triedEverMoreRarely(t *testing.T, s harness.Settings, job int64) {
	t.Helper()
	tries := timesOf(t, s, job, journal.KindAccepted)
	for i := 2; i < len(tries); i++ {
		if gap, least := tries[i].Sub(tries[i-1]), 500*time.Millisecond<<(i-2); gap < least {
			t.Errorf("try %d of row %d came %s after the one before, not %s: %v", i+1, job, gap, least, tries)
		}
	}
	if all := len(timesOf(t, s, job)); all > 3*len(tries)+3 { // a try may be under way
		t.Errorf("%d events of %d tries of row %d", all, len(tries), job)
	}
}

// A constraint refuses to have a row claimed. The others of all targets go on; the journal does not grow by the row
// that is refused, which is listed with the reason, and runs when the constraint is gone.
func TestAConstraintThatOneRowViolates(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), harness.NewOracle(t, "")
	db.Exec(t, "ALTER TABLE jobs ADD CONSTRAINT odd CHECK (time_created <> 5 OR status NOT IN ('accepted', 'running'))")
	s := db.Worker(t, "worker", l.Command, map[string]int{"a": 2, "b": 2})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, 4)...)
	db.Exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (5, 'a', 5)")
	insert(t, db, "a", "waiting", span(6, 20)...)
	insert(t, db, "b", "waiting", span(21, 40)...)
	poll(t, worker)
	awaitCount(t, db, 39, "status = 'done'")
	harness.Until(t, func() string { return missingAside(t, worker, "odd", 5) })
	triedEverMoreRarely(t, s, 5)
	db.Exec(t, "ALTER TABLE jobs DROP CONSTRAINT odd")
	awaitCount(t, db, 40, "status = 'done' AND result = 'ok'")
	l.ExpectOnce(t, 40)
}

// file is an SQLite table in a folder of its own.
type file struct {
	path string
	db   *sql.DB
}

// newFile makes the table as an application does whose columns may all be NULL.
func newFile(t *testing.T) *file {
	t.Helper()
	return openFile(t, filepath.Join(t.TempDir(), "jobs.db"))
}

// openFile makes the table in a file, which is new.
func openFile(t *testing.T, path string) *file {
	t.Helper()
	f := reopen(t, path)
	f.Exec(t, `CREATE TABLE jobs (id INTEGER PRIMARY KEY, target TEXT, time_created INTEGER, time_started INTEGER DEFAULT 0,
		time_finished INTEGER DEFAULT 0, status TEXT NOT NULL DEFAULT 'waiting', result TEXT, return_code INTEGER, sig TEXT,
		stdout TEXT, stderr TEXT)`)
	f.Exec(t, "CREATE INDEX jobs_status_target_idx ON jobs (status, target, id)")
	return f
}

// reopen opens a file that may have the table already.
func reopen(t *testing.T, path string) *file {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_txlock=immediate"))(t)
	t.Cleanup(func() { db.Close() })
	return &file{path, db}
}

// Exec runs a statement as the application.
func (f *file) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%.100s: %v", statement, err)
	}
}

// Count tells how many rows a condition holds for.
func (f *file) Count(t testing.TB, where string, args ...any) (n int) {
	t.Helper()
	if err := f.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs WHERE "+where, args...).Scan(&n); err != nil {
		t.Fatalf("count rows where %s: %v", where, err)
	}
	return n
}

// worker is the settings of a jobd on the table.
func (f *file) worker(t *testing.T, command string, targets map[string]int) harness.Settings {
	t.Helper()
	return harness.Targets(targets).With(harness.Settings{
		"poll_interval": "0",
		"store":         "sqlite", "sqlite_path": f.path, "host": "127.0.0.1", "port": harness.FreePort(t), "name": "worker",
		"launcher": command, "journal_dir": filepath.Join(t.TempDir(), "journal"), "log_level_console": "info",
	})
}
