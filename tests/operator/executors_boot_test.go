package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// Jobs that wait for a process which takes its time to load can be cancelled, and go back to the
// queue at once when their target is paused or the worker stops: they were never started.
func TestJobsThatWaitForAProcessAreTakenBack(t *testing.T) {
	t.Parallel()
	db, dir := harness.NewDatabase(t), t.TempDir()
	loaded, launcher, preloaded := filepath.Join(dir, "loaded"), filepath.Join(dir, "launcher"), filepath.Join(dir, "preload.pl")
	preload(t, preloaded, dir, "one")
	if err := os.WriteFile(launcher, []byte("until test -e "+loaded+"; do sleep 0.2; done; exec perl "+preloaded+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := db.Worker(t, "node-1", "sh "+launcher, map[string]int{"mail": 2}).With(harness.Settings{
		"launcher_mode": "fork", "boot_timeout": "3600", "shutdown_timeout": "0", "max_output_buffer": "64KiB",
	})
	worker := settings.StartWorker(t)
	expect := func(want string, args ...string) {
		t.Helper()
		if got := jobctl(t, worker, args...); got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Fatalf("jobctl %q: %+v", args, got)
		}
	}
	add(t, db, 2)
	expect("ok\n", "poll")
	db.AwaitCount(t, 2, "status = 'running'")
	expect("ignored: it will not run", "cancel", "1")
	db.AwaitStatus(t, 1, "ignored")
	expect("ok\n", "pause", "mail")
	db.AwaitStatus(t, 2, "waiting")
	expect("ok\n", "continue", "mail")
	db.AwaitStatus(t, 2, "running")
	worker.Signal(t, 15)
	if code := worker.ExitCode(t); code != 0 { // it waits for nothing, though nothing limits that
		t.Errorf("exit code %d: %s", code, worker.Output())
	}
	db.AwaitStatus(t, 2, "waiting")
	harness.Touch(t, loaded)
	worker = settings.StartWorker(t)
	expect("ok\n", "poll")
	if row := db.AwaitDone(t, 2); harness.Text(row.Result) != "ok" {
		t.Errorf("row %s", row)
	}
}
