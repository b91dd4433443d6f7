package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/net/api"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// writing starts a worker with a job that has written to both streams, and waits until the runner
// has that on disk. dir has what the job waits for.
func writing(t *testing.T, others ...harness.Settings) (db *harness.Database, settings harness.Settings, worker *harness.Daemon, dir string) {
	t.Helper()
	db, dir = harness.NewDatabase(t), t.TempDir()
	launcher := harness.Script(t, fmt.Sprintf(`trap '' PIPE; n=${JOBD_ATTEMPT:-1}
echo said $n; echo trouble $n >&2
while [ -d %[1]s ] && [ ! -e %[1]s/gate$n ]; do sleep 0.2; done; echo more`, dir))
	settings = db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 1}).With(others...)
	worker = settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	awaitOnDisk(t, settings, "said 1\n", "trouble 1\n")
	return db, settings, worker, dir
}

// onDisk is what a worker's runners have on disk, by the ends of the files' names.
func onDisk(t *testing.T, settings harness.Settings) map[string]string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(settings["journal_dir"], "runner.output", "*")))(t)
	found := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is removed just now
		}
		name := filepath.Base(file)
		found[strings.Join(strings.Split(name, ".")[:2], ".")+filepath.Ext(name)] = string(text)
	}
	return found
}

func awaitOnDisk(t *testing.T, settings harness.Settings, stdout, stderr string) {
	t.Helper()
	harness.Until(t, func() string {
		found, missing := onDisk(t, settings), ""
		for _, want := range []string{stdout, stderr} {
			there := want == ""
			for _, text := range found {
				there = there || text == want
			}
			if !there {
				missing += fmt.Sprintf("%q is not on disk: %q", want, found)
			}
		}
		return missing
	})
}

func awaitNothingOnDisk(t *testing.T, settings harness.Settings) {
	t.Helper()
	harness.Until(t, func() string {
		if found := onDisk(t, settings); len(found) > 0 {
			return fmt.Sprintf("there are still %q", found)
		}
		return ""
	})
}

// Everything is killed: the outcome is unknown, and the row has what the job had written by then.
func TestCrashKeepsTheOutput(t *testing.T) {
	t.Parallel()
	db, settings, worker, _ := writing(t)
	worker.Crash(t)
	settings.StartWorker(t)
	row := db.AwaitDone(t, 1)
	reason, rest, _ := strings.Cut(harness.Text(row.Stderr), "\n")
	if harness.Text(row.Stdout) != "said 1\n" || rest != "trouble 1\n" || !strings.HasPrefix(reason, "jobd: outcome unknown: ") || !isReported(row) {
		t.Errorf("%s: want what the job had written, behind the reason", row)
	}
	awaitNothingOnDisk(t, settings)
	verifyJournal(t, settings)
}

// The runner is killed under a worker that lives, and its job runs on: it can be looked at, and its
// row has what it had written.
func TestKilledRunnerKeepsTheOutput(t *testing.T) {
	t.Parallel()
	db, settings, worker, dir := writing(t)
	must.Do(t, syscall.Kill(worker.Runner(t), syscall.SIGKILL))
	client := harness.Dial(t, worker.Addr)
	var told api.JobOutput
	harness.Until(t, func() string {
		client.Ask(t, "output", map[string]any{"job": 1, "stdout": 5}).Decode(t, &told)
		if told.Adopted {
			return ""
		}
		return fmt.Sprintf("told %+v", told)
	})
	if string(told.Stdout.Bytes) != "1\n" || told.Stdout.At != 5 || told.Stdout.Size != 7 || string(told.Stderr.Bytes) != "trouble 1\n" || !told.Running {
		t.Errorf("told %+v", told)
	}
	harness.Touch(t, filepath.Join(dir, "gate1"))
	row := db.AwaitDone(t, 1)
	if harness.Text(row.Stdout) != "said 1\n" || !strings.HasSuffix(harness.Text(row.Stderr), "\ntrouble 1\n") || !isReported(row) {
		t.Errorf("%s: want what the job had written while somebody read it", row)
	}
	awaitNothingOnDisk(t, settings)
	verifyJournal(t, settings)
}

// Everything is killed but the job, which the next start finds alive.
func TestAStrayKeepsTheOutput(t *testing.T) {
	t.Parallel()
	db, settings, worker, dir := writing(t)
	runner := worker.Runner(t)
	worker.Kill(t)
	must.Do(t, syscall.Kill(runner, syscall.SIGKILL))
	settings.StartWorker(t)
	harness.Touch(t, filepath.Join(dir, "gate1"))
	row := db.AwaitDone(t, 1)
	if harness.Text(row.Stdout) != "said 1\n" || !strings.HasSuffix(harness.Text(row.Stderr), "\ntrouble 1\n") || !isReported(row) {
		t.Errorf("%s: want what the job had written", row)
	}
	awaitNothingOnDisk(t, settings)
}

// With on_crash = requeue what the first attempt has written can be looked at while the second one
// runs; its row has what the second one has written.
func TestARequeuedJobKeepsTheOutputOfBefore(t *testing.T) {
	t.Parallel()
	db, settings, worker, dir := writing(t, harness.Settings{"on_crash": "requeue"})
	worker.Crash(t)
	worker = settings.StartWorker(t)
	awaitOnDisk(t, settings, "said 2\n", "trouble 2\n")
	client := harness.Dial(t, worker.Addr)
	for attempt, want := range map[int]string{0: "said 2\n", 1: "said 1\n", 2: "said 2\n"} {
		var told api.JobOutput
		client.Ask(t, "output", map[string]any{"job": 1, "attempt": attempt}).Decode(t, &told)
		if string(told.Stdout.Bytes) != want || told.Attempt == 0 {
			t.Errorf("of attempt %d is told %+v", attempt, told)
		}
	}
	harness.Touch(t, filepath.Join(dir, "gate2"))
	if row := db.AwaitDone(t, 1); harness.Text(row.Stdout) != "said 2\nmore\n" || harness.Text(row.Stderr) != "trouble 2\n" {
		t.Errorf("%s", row)
	}
	awaitNothingOnDisk(t, settings)
	verifyJournal(t, settings)
}

// What an ended job had on disk is removed, also where its runner was killed meanwhile; a start
// removes what nobody needs, and leaves alone what is not jobd's.
func TestOutputThatNobodyNeedsIsRemoved(t *testing.T) {
	t.Parallel()
	db, settings, worker, dir := writing(t)
	harness.Touch(t, filepath.Join(dir, "gate1"))
	db.AwaitDone(t, 1)
	awaitNothingOnDisk(t, settings)
	folder := filepath.Join(settings["journal_dir"], "runner.output")
	worker.Crash(t)
	for _, name := range []string{"5.1.77.88.out", "-5.1.77.88.err", "notes"} {
		harness.Touch(t, filepath.Join(folder, name))
	}
	settings.StartWorker(t)
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != "notes" {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A worker that is replaced leaves its jobs' output to the next one, and a follower misses nothing.
func TestHandoverKeepsTheOutput(t *testing.T) {
	t.Parallel()
	db, settings, worker, dir := writing(t, handover)
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	worker = settings.StartWorker(t)
	var told api.JobOutput
	harness.Dial(t, worker.Addr).Ask(t, "output", map[string]any{"job": 1}).Decode(t, &told)
	if string(told.Stdout.Bytes) != "said 1\n" || told.Adopted || !told.Running || told.Attempt != 1 {
		t.Errorf("told %+v", told)
	}
	if found := onDisk(t, settings); found["1.1.out"] != "said 1\n" {
		t.Errorf("on disk is %q", found)
	}
	harness.Touch(t, filepath.Join(dir, "gate1"))
	if row := db.AwaitDone(t, 1); harness.Text(row.Stdout) != "said 1\nmore\n" {
		t.Errorf("%s", row)
	}
	awaitNothingOnDisk(t, settings)
}
