package lifecycle

import (
	"fmt"
	"path/filepath"
	"testing"

	"jobd/tests/harness"
)

// late starts a worker with a job that may run for five seconds, and waits until that is known to
// run. The job says in a file that it was asked to end, and does so, with exit code 0.
func late(t *testing.T) (db *harness.Database, settings harness.Settings, worker *harness.Daemon, asked string) {
	t.Helper()
	db, asked = harness.NewDatabase(t), filepath.Join(t.TempDir(), "asked")
	launcher := harness.Script(t, fmt.Sprintf(`trap 'touch %s; exit 0' TERM; echo begun; sleep 300 & wait`, asked))
	settings = db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 1}).
		With(harness.Settings{"target.a.timeout": "5", "target.a.kill_after": "1h"})
	worker = settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	awaitOnDisk(t, settings, "begun\n", "")
	return db, settings, worker, asked
}

const endedLate = "[jobd: ended after its timeout of 5s, with SIGTERM]\n"

// The worker is killed while the timeout runs: it is over while nobody is there, and the next start
// tells how the job ended.
func TestTimeoutWhileTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	db, settings, worker, asked := late(t)
	worker.Kill(t)
	harness.AwaitFile(t, asked)
	settings.StartWorker(t)
	row := db.AwaitDone(t, 1)
	if harness.Text(row.Result) != "fail" || row.Code == nil || *row.Code != 0 || row.Sig != nil ||
		harness.Text(row.Stdout) != "begun\n" || harness.Text(row.Stderr) != endedLate {
		t.Errorf("%s: want a failure with code 0, and %q", row, endedLate)
	}
	verifyJournal(t, settings)
}
