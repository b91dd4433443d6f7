package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/tests/harness"
)

// Killed while two jobs run and two wait for a slot: after the restart the ones that ran have
// their true outcome or are reported, and never run again; the others run.
func TestKilledWorkerLeavesNoJobStuck(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).
		With(harness.Settings{"prefetch": "2"})
	worker := settings.StartWorker(t)
	db.InsertMany(t, 4, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 2)
	db.AwaitCount(t, 2, "status = 'accepted'")
	ran := launcher.starts(t)
	worker.Kill(t)

	launcher.open(t)
	settings.StartWorker(t)
	db.AwaitCount(t, 4, "status = 'done'")
	for id := range int64(4) {
		row, wasRunning := db.Row(t, id+1), ran[fmt.Sprint(id+1)] > 0
		if !isRight(row, id+1) && (!wasRunning || !isReported(row)) {
			t.Errorf("job %d, which ran when the worker was killed: %t: %s", id+1, wasRunning, row)
		}
	}
	for id, times := range launcher.starts(t) {
		if times != 1 {
			t.Errorf("job %s was started %d times", id, times)
		}
	}
	verify(t, settings)
}

// With on_crash = requeue a job whose outcome is unknown runs once more, and knows it.
func TestKilledWorkerRequeues(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	dir := t.TempDir()
	launcher := harness.Script(t, fmt.Sprintf(
		`echo attempt "$JOBD_ATTEMPT"; echo $$ > %[1]s/new; mv %[1]s/new %[1]s/pid; [ "$JOBD_ATTEMPT" = 2 ] || exec sleep 600`, dir))
	settings := db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 1}).
		With(harness.Settings{"on_crash": "requeue"})
	worker := settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	harness.AwaitFile(t, filepath.Join(dir, "pid"))
	worker.Kill(t)
	killProcess(t, filepath.Join(dir, "pid"))

	settings.StartWorker(t)
	if row := db.AwaitDone(t, 1); harness.Text(row.Stdout) != "attempt 2\n" || harness.Text(row.Result) != "ok" {
		t.Errorf("%s: want the second attempt to be ok", row)
	}
	verify(t, settings)
}

// The worker is killed at random moments, over and over, while it drains the table.
// No job starts twice, none is lost, and the journal stays whole.
func TestKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	const jobs, kills = 300, 8
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	launcher.open(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 4})
	db.InsertMany(t, jobs, "a", "waiting")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	for range kills {
		worker := settings.StartWorker(t)
		<-time.After(time.Duration(random.IntN(250)) * time.Millisecond) // the moment of the crash
		worker.Kill(t)
	}
	settings.StartWorker(t)
	db.AwaitCount(t, jobs, "status = 'done'")

	starts := launcher.starts(t)
	for id := range int64(jobs) {
		row, times := db.Row(t, id+1), starts[fmt.Sprint(id+1)]
		if times > 1 || times == 0 && !isReported(row) {
			t.Errorf("job %d was started %d times: %s", id+1, times, row)
		}
		if !isRight(row, id+1) && !isReported(row) {
			t.Errorf("job %d: %s", id+1, row)
		}
	}
	t.Logf("%d of %d jobs were running when the worker was killed", db.Count(t, "result = 'fail'"), jobs)
	verify(t, settings)
}

// isRight tells whether the row has the true outcome of a job of the gated launcher.
func isRight(row harness.Row, id int64) bool {
	return harness.Text(row.Result) == "ok" && harness.Text(row.Stdout) == fmt.Sprintf("out %d\n", id)
}

// isReported tells whether the row says that nobody knows how the job ended.
func isReported(row harness.Row) bool {
	return harness.Text(row.Result) == "fail" && row.Code == nil && strings.Contains(harness.Text(row.Stderr), "outcome unknown")
}

// killProcess kills the process whose id is in a file: the crash took the job along.
func killProcess(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid <= 1 {
		t.Fatalf("%s holds %q: no process id", file, content)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// verify reads the worker's journal from its beginning: sequence, chain and transitions.
func verify(t *testing.T, settings harness.Settings) {
	t.Helper()
	reader, err := journal.OpenReader(settings["journal_dir"])
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.Verify(t.Context()); err != nil {
		t.Errorf("the journal does not verify: %v", err)
	}
}
