package lifecycle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// installed is a jobd of its own that a test may replace, as a package manager does: by a file
// that is renamed over it.
func installed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobd")
	replace(t, path, harness.Program(t, "jobd"))
	return path
}

func replace(t *testing.T, path, by string) {
	t.Helper()
	if out, err := exec.Command("cp", by, path+".new").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must.Do(t, os.Rename(path+".new", path))
}

// After jobctl restart the same process runs another binary; its jobs were not interrupted, and
// what was claimed goes on.
func TestRestartWithAnotherBinary(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	binary := installed(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 2}).With(harness.Settings{"prefetch": "2"})
	worker := harness.LaunchBinary(t, binary, settings.Write(t), settings.Addr()).Ready(t)
	db.InsertMany(t, 4, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 2)

	replace(t, binary, harness.Program(t, "jobd"))
	if out, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(worker, "restart")...).CombinedOutput(); err != nil {
		t.Fatalf("jobctl restart: %v: %s", err, out)
	}
	if exe, err := os.Readlink(worker.Proc("exe")); err != nil || exe != binary {
		t.Errorf("the process runs %s: %v", exe, err)
	}
	launcher.open(t)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')")
	expectOnce(t, launcher, 4)
	verifyJournal(t, settings)
	log, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), "--config=", "journal", "log", "--journal", settings["journal_dir"], "--kind", "requested").CombinedOutput()
	if err != nil || !strings.Contains(string(log), "request=restart by=127.0.0.1:") {
		t.Errorf("who asked for the restart is not in the journal: %v: %s", err, log)
	}
}

// A binary that can't be run is told before anything is given up.
func TestRestartRefusesABinaryThatCannotBeRun(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := newGated(t)
	binary := installed(t)
	settings := db.Worker(t, "worker", launcher.command, map[string]int{"a": 1})
	worker := harness.LaunchBinary(t, binary, settings.Write(t), settings.Addr()).Ready(t)
	db.InsertMany(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.awaitStarts(t, 1)

	broken := filepath.Join(t.TempDir(), "broken")
	must.Do(t, os.WriteFile(broken, []byte("no program"), 0o755))
	replace(t, binary, broken)
	out, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(worker, "restart")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not restarted: "+binary+" --check: ") {
		t.Errorf("jobctl restart: %v: %s", err, out)
	}
	launcher.open(t)
	db.AwaitCount(t, 1, "status = 'done' AND result = 'ok'")
}

func ctlFlags(worker *harness.Daemon, words ...string) []string {
	host, port, _ := strings.Cut(worker.Addr, ":")
	return append([]string{"--config=", "--host", host, "--port", port}, words...)
}
