package lifecycle

import (
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
