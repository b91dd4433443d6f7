package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// midway starts a worker and leaves it with two jobs that run, and two that are
// claimed and wait for a slot.
func midway(t *testing.T, launcher gated, others ...harness.Settings) (*harness.Database, harness.Settings, *harness.Daemon) {
	t.Helper()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).
		With(harness.Settings{"prefetch": "2"}).With(others...)
	worker := settings.StartWorker(t)
	db.InsertMany(t, 4, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 2)
	db.AwaitCount(t, 2, "status = 'accepted'")
	db.AwaitCount(t, 2, "status = 'running'")
	return db, settings, worker
}

// The worker alone is killed: its jobs run on, and what became of them is known
// when it is back. The others run then.
func TestKilledWorkerLosesNothing(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher)
	worker.Kill(t)
	launcher.open(t)
	settings.StartWorker(t)
	db.AwaitCount(t, 4, "status = 'done'")
	for id := range int64(4) {
		if row := db.Row(t, id+1); !isRight(row, id+1) {
			t.Errorf("job %d: %s", id+1, row)
		}
	}
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}

// Everything is killed: nobody knows how the jobs that ran would have ended, so
// that is what their rows say. They do not run again; the others run.
func TestCrashIsReported(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher)
	ran := launcher.starts(t)
	worker.Crash(t)
	launcher.open(t)
	settings.StartWorker(t)
	db.AwaitCount(t, 4, "status = 'done'")
	for id := range int64(4) {
		row, wasRunning := db.Row(t, id+1), ran[fmt.Sprint(id+1)] > 0
		if wasRunning && !isReported(row) || !wasRunning && !isRight(row, id+1) {
			t.Errorf("job %d, which ran when all was killed: %t: %s", id+1, wasRunning, row)
		}
	}
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}

// isRight tells whether the row has the true outcome of a job of the gated launcher.
func isRight(row harness.Row, id int64) bool {
	return harness.Text(row.Result) == "ok" && harness.Text(row.Stdout) == fmt.Sprintf("out %d\n", id)
}

// isReported tells whether the row says that nobody knows how the job ended.
func isReported(row harness.Row) bool {
	return harness.Text(row.Result) == "fail" && row.Code == nil && strings.Contains(harness.Text(row.Stderr), "outcome unknown")
}

// verifyJournal reads the worker's journal from its beginning: sequence, chain and transitions.
func verifyJournal(t *testing.T, settings harness.Settings) {
	t.Helper()
	reader := must.Get(replay.Open(settings["journal_dir"]))(t)
	if _, err := verify.Audit(t.Context(), reader.Folder(), nil, nil); err != nil {
		t.Errorf("the journal does not verify: %v", err)
	}
}
