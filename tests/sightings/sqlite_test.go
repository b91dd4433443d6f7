package sightings

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the application's driver

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
