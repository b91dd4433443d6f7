package time

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the application's driver

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The same with the table in a file, which jobd makes itself, with all columns: rows that are delayed, that
// recur, that fail, and that say what can't be; and a worker that is killed among them.
func TestTheTableInAFile(t *testing.T) {
	t.Parallel()
	o := newOracle(t, `case $1 in 3) exit 1;; 4) [ $JOBD_ATTEMPT = 2 ];; esac`)
	path := filepath.Join(t.TempDir(), "jobs.db")
	settings := harness.Targets(map[string]int{"a": 2}).With(harness.UsesAll, harness.Settings{
		"store": "sqlite", "sqlite_path": path, "host": "127.0.0.1", "port": harness.FreePort(t), "name": "w1", "poll_interval": "0",
		"launcher": o.launcher + " {id}", "journal_dir": filepath.Join(t.TempDir(), "journal"), "log_level_console": "info",
	}, harness.Terms("a", harness.Settings{"attempts": "3", "backoff": "1s"}))
	worker := settings.StartWorker(t)
	db := must.Get(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(30000)&_txlock=immediate"))(t)
	t.Cleanup(func() { db.Close() })
	must.Get(db.ExecContext(t.Context(), `INSERT INTO jobs (id, target, time_created, status, run_at, schedule, unique_key) VALUES
		(1, 'a', unixepoch(), 'delayed', unixepoch() + 2, NULL, NULL),
		(2, 'a', unixepoch(), 'delayed', 0, 'every 1s', NULL),
		(3, 'a', unixepoch(), 'waiting', 0, NULL, 'three'),
		(4, 'a', unixepoch(), 'delayed', unixepoch(), NULL, NULL),
		(5, 'a', unixepoch(), 'delayed', unixepoch() * 1000, NULL, 'five'),
		(6, 'a', unixepoch(), 'delayed', 0, 'sometimes', NULL),
		(7, 'a', unixepoch(), 'delayed', 0, strftime('daily %H:30', 'now', 'localtime', '+12 hours'), NULL)`))(t)
	poll(t, worker)
	o.await(t, 2, 2)
	worker.Kill(t)
	settings.StartWorker(t)
	count := func(want int, where string) {
		t.Helper()
		harness.Until(t, func() string {
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs WHERE "+where).Scan(&n); err != nil || n != want {
				return fmt.Sprintf("%d rows, not %d, where %s: %v", n, want, where, err)
			}
			return ""
		})
	}
	count(1, "id = 1 AND status = 'done' AND result = 'ok' AND attempts = 1 AND time_started >= run_at")
	count(1, "id = 3 AND status = 'done' AND result = 'fail' AND attempts = 3 AND unique_key IS NULL")
	count(1, "id = 4 AND status = 'done' AND result = 'ok' AND attempts = 2")
	count(1, "id = 5 AND status = 'ignored' AND stderr LIKE '%milliseconds%' AND unique_key IS NULL")
	count(1, "id = 6 AND status = 'ignored' AND stderr LIKE '%sometimes%'")
	count(1, "id = 7 AND status = 'delayed' AND run_at > unixepoch() AND run_at = planned_at")
	starts := o.await(t, 2, len(o.starts(t, 2))+2)
	for i, begun := range starts[1:] {
		if begun.planned <= starts[i].planned {
			t.Errorf("%s came behind %s", begun, starts[i])
		}
	}
	for id, want := range map[int64]int{1: 1, 3: 3, 4: 2, 5: 0, 6: 0, 7: 0} {
		if n := len(o.starts(t, id)); n != want {
			t.Errorf("job %d was started %d times, not %d", id, n, want)
		}
	}
	verifyJournal(t, settings)
}
