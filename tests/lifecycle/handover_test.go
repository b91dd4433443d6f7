package lifecycle

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/exec/runner/proctest"
	"jobd/tests/harness"
)

var handover = harness.Settings{"on_stop": "handover", "shutdown_timeout": "100ms"}

// A worker that hands over leaves its jobs running, however short shutdown_timeout is. The next
// start takes them up, with their true exit codes and all of their output.
func TestHandover(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	launcher.then(t, `echo "err $1" >&2; exit "$1"`)
	db, settings, worker := midway(t, launcher, handover)
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	db.AwaitCount(t, 2, "status = 'running'")
	db.AwaitCount(t, 2, "status = 'waiting' AND COALESCE(sig, '') = ''")

	settings.StartWorker(t)
	launcher.open(t)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'fail' AND return_code = id AND sig IS NULL"+
		" AND stdout = CONCAT('out ', id, '\n') AND stderr = CONCAT('err ', id, '\n')")
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}

// A job that ends while no worker is there to see it is not lost either.
func TestHandoverOfAJobThatEndsBeforeTheNextStart(t *testing.T) {
	t.Parallel()
	launcher, dir := newGated(t), t.TempDir()
	launcher.then(t, fmt.Sprintf(`touch %s/ended-"$1"`, dir))
	db, settings, worker := midway(t, launcher, handover)
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	launcher.open(t)
	for id := range launcher.starts(t) {
		harness.AwaitFile(t, filepath.Join(dir, "ended-"+id))
	}

	settings.StartWorker(t)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')")
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}

// Clients that wait for a manual job are told that it goes on, and where to look.
func TestHandoverTellsClients(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 1}).
		With(harness.Settings{"prefetch": "1"}, handover)
	worker := settings.StartWorker(t)
	db.InsertMany(t, 2, "a", "manual")
	client := harness.Dial(t, worker.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": []int{1, 2}})
	launcher.awaitStarts(t, 1)
	db.AwaitCount(t, 1, "status = 'accepted'")

	worker.Signal(t, syscall.SIGTERM)
	var answer harness.Jobs
	response, _ := client.Answer(t)
	response.Decode(t, &answer)
	for id := range int64(2) {
		want := fmt.Sprintf("job %d was not run: the worker stopped before the start", id+1)
		if db.Row(t, id+1).Status == "running" {
			want = fmt.Sprintf("job %d goes on while the worker restarts; its row will tell how it ended", id+1)
		}
		if got := answer.Errors[fmt.Sprint(id+1)]; got != want {
			t.Errorf("the client was told %q, want %q", got, want)
		}
	}
	if len(answer.Jobs) != 0 {
		t.Errorf("the client was told how jobs ended that run on: %v", answer.Jobs)
	}
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}

	settings.StartWorker(t)
	launcher.open(t)
	db.AwaitCount(t, 1, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')")
	db.AwaitCount(t, 1, "status = 'manual' AND COALESCE(sig, '') = ''")
	expectOnce(t, launcher, 1)
	verifyJournal(t, settings)
}

// Regression: a worker whose runner had been stopped waited for its answer for ever, and so never ended. Nor did the next one
// say why it did not start.
func TestHandoverWhileTheRunnerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher, handover)
	runner := worker.Runner(t)
	freeze(t, runner)
	client := harness.Dial(t, worker.Addr)
	client.Ask(t, "set-target-concurrency", map[string]any{"target": "a", "concurrency": 3})
	db.AwaitCount(t, 3, "status = 'running'") // the runner was asked for the third, or is about to be
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if said := "the runner does not answer: it is left as it is"; !strings.Contains(worker.Output(), said) {
		t.Errorf("the log does not say %q", said)
	}

	if code, output := settings.Refused(t); code != 1 || !strings.Contains(output, "the runner does not answer") {
		t.Errorf("the next start ended with %d:\n%s\nwant words about the runner", code, output)
	}
	thaw(t, runner)
	settings.StartWorker(t)
	launcher.open(t)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')")
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}

// A worker that is to end at once does so, whether its runner kills the jobs or not.
func TestStopWhileTheRunnerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher, nil)
	runner := worker.Runner(t)
	freeze(t, runner)
	worker.Signal(t, syscall.SIGTERM)
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "stopping") {
			return "the worker does not stop"
		}
		return ""
	})
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if said := "jobs survived SIGKILL"; !strings.Contains(worker.Output(), said) {
		t.Errorf("the log does not say %q", said)
	}
	thaw(t, runner)
	settings.StartWorker(t)
	db.AwaitCount(t, 2, "status = 'done' AND result = 'fail' AND sig IS NOT NULL")
	launcher.open(t)
	db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}

// freeze stops a process until it is thawed, or the test ends.
func freeze(t *testing.T, pid int) {
	t.Helper()
	proctest.Stop(t, pid)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may be gone
}

func thaw(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// A client that wants a job signalled meanwhile is answered, and holds up no stop. The runner sends
// that signal when it goes on; it was asked for no more once it had not answered, so the other job
// goes on with the next start.
func TestSignalWhileTheRunnerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	launcher := newGated(t)
	db, settings, worker := midway(t, launcher, nil)
	runner := worker.Runner(t)
	freeze(t, runner)
	client := harness.Dial(t, settings.Addr())
	answer := client.Ask(t, "send-signal", map[string]any{"jobs": map[string]int{"1": 15}})
	if got := string(answer.Data); got != `{"1":false}` {
		t.Errorf("the client is told %s", got)
	}
	if said := "the runner does not answer"; !strings.Contains(worker.Output(), said) {
		t.Errorf("the log does not say %q", said)
	}
	worker.Signal(t, syscall.SIGTERM)
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "stopping") {
			return "the worker does not stop"
		}
		return ""
	})
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	thaw(t, runner)
	settings.StartWorker(t)
	db.AwaitCount(t, 1, "id = 1 AND status = 'done' AND result = 'fail' AND sig IS NOT NULL")
	launcher.open(t)
	db.AwaitCount(t, 3, "status = 'done' AND result = 'ok'")
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
}
