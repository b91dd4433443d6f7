package sqlite_test

import (
	"path/filepath"
	"testing"

	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest"
)

func TestTimekeeper(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := application(t, path)
	exec(t, db, `CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, time_created INTEGER NOT NULL,
		time_started INTEGER NOT NULL DEFAULT 0, time_finished INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT 'waiting',
		result TEXT, return_code INTEGER, sig TEXT, stdout TEXT, stderr TEXT,
		run_at INTEGER NOT NULL DEFAULT 0, planned_at INTEGER NOT NULL DEFAULT 0, schedule TEXT, time_zone TEXT,
		attempts INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER, timeout INTEGER, priority INTEGER NOT NULL DEFAULT 0, unique_key TEXT UNIQUE)`)
	exec(t, db, "CREATE INDEX status_target_idx ON jobs (status, target, id)")
	exec(t, db, "CREATE INDEX status_target_due_idx ON jobs (status, target, run_at)")
	exec(t, db, "CREATE INDEX status_target_priority_idx ON jobs (status, target, priority DESC, id)")
	uses := confirmed(t, open(t, sqlite.Config{Path: path, Uses: store.TimeColumns()}))
	storetest.RunTimekeeper(t, db, uses, confirmed(t, open(t, sqlite.Config{Path: path})))
}
