package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Of a worker that was killed a master still tells the targets, and that it is down: what others can tell is
// there, and nobody takes what is missing for nothing.
func TestAWorkerThatIsDownIsNotForgotten(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	up := db.Worker(t, "up", "/bin/true {id}", map[string]int{"mail": 1}).With(harness.MasterOf(master)).StartWorker(t)
	gone := db.Worker(t, "gone", "/bin/true {id}", map[string]int{"video": 1}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 2)
	gone.Kill(t)
	harness.AwaitWorkers(t, master, "", 1)
	db.Insert(t, 1, "video", "waiting")
	expect := func(code int, missing string, args ...string) ran {
		t.Helper()
		got := jobctl(t, master, append([]string{"--master"}, args...)...)
		if got.code != code || !strings.Contains(got.stderr, missing) {
			t.Errorf("%q: %+v", args, got)
		}
		return got
	}
	const down = "worker 'gone': it is down since "
	if got := expect(1, down, "queue"); !strings.Contains(got.stdout, "video") || !strings.Contains(got.stdout, "mail") {
		t.Errorf("queue: %+v", got)
	}
	expect(1, down, "schedule", "--list")
	if got := expect(1, "", "health"); !strings.Contains(got.stdout, "1 row waits") {
		t.Errorf("health: %+v", got)
	}
	up.Kill(t)
	harness.AwaitWorkers(t, master, "", 0)
	for _, args := range [][]string{{"ps"}, {"failed"}, {"schedule", "--list"}} {
		if got := expect(1, down, args...); got.stdout != "" {
			t.Errorf("nobody is there to be asked, and %q says: %+v", args, got)
		}
	}
	if got := expect(2, "", "health"); !strings.Contains(got.stdout, "how many rows wait is not known") {
		t.Errorf("health: %+v", got)
	}
}

// A reload says what is odd in the file that it has taken over.
func TestAReloadTellsWarnings(t *testing.T) {
	t.Parallel()
	settings := harness.NewDatabase(t).Worker(t, "w1", "/bin/true {id}", map[string]int{"mail": 1})
	worker := settings.StartWorker(t)
	text := string(must.Get(os.ReadFile(worker.Config))(t))
	must.Do(t, os.WriteFile(worker.Config, []byte("bakcoff = 20s\n"+text), 0o600))
	got := jobctl(t, worker, "reload")
	if got.code != 0 || !strings.Contains(got.stdout, "bakcoff") || !strings.Contains(got.stdout, filepath.Base(worker.Config)+":1") {
		t.Errorf("%+v", got)
	}
}
