package operator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Of more rows than one request sets back each worker is asked several times, and every one of them
// is run once more, none twice.
func TestManyRowsAreSetBackInSeveralRequests(t *testing.T) {
	t.Parallel()
	const each, atOnce = 1100, 1000
	db, master, dir := harness.NewDatabase(t), harness.StartMaster(t), t.TempDir()
	mended, starts := filepath.Join(dir, "mended"), filepath.Join(dir, "starts")
	launcher := harness.Script(t, "echo $1 >> "+starts+"; [ -e "+mended+" ]")
	for name, target := range map[string]string{"node-1": "a", "node-2": "b"} {
		db.Worker(t, name, launcher+" {id}", map[string]int{target: 4}).
			With(harness.MasterOf(master), harness.Settings{"poll_interval": "0", "log_level_console": "warn"}).StartWorker(t)
	}
	harness.AwaitWorkers(t, master, "", 2)
	db.InsertMany(t, 2*each, "a", "manual")
	db.Exec(t, "UPDATE jobs SET target = IF(id > ?, 'b', 'a'), status = 'waiting'", each)
	if got := jobctl(t, master, "--master", "poke", "a", "b"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db.AwaitCount(t, 2*each, "status = 'done' AND result = 'fail'")
	harness.Touch(t, mended)

	var mu sync.Mutex
	var answers []int // how many rows each says that it has set back
	way := tapped(t, master.Addr, func(frame []byte) {
		if n := bytes.Count(frame, []byte(`:"waiting"`)); n > 1 {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, n)
		}
	})
	got := jobctl(t, way, "--master", "retry", "--failed", "--yes")
	if n := strings.Count(got.stdout, "waiting"); n != 2*each || got.stderr != "" || got.code != 0 {
		t.Errorf("%d rows were set back, with code %d and %q", n, got.code, got.stderr)
	}
	harness.Until(t, func() string { // the last one may have come before it was counted
		mu.Lock()
		defer mu.Unlock()
		all, most := 0, 0
		for _, n := range answers {
			all, most = all+n, max(most, n)
		}
		if len(answers) != 4 || all != 2*each || most > atOnce {
			return fmt.Sprintf("answers about %v rows, want four about %d in all, and none about more than %d", answers, 2*each, atOnce)
		}
		return ""
	})

	db.AwaitCount(t, 2*each, "status = 'done' AND result = 'ok'")
	text := must.Get(os.ReadFile(starts))(t)
	started := map[string]int{}
	for _, job := range strings.Fields(string(text)) {
		started[job]++
	}
	for job, n := range started {
		if n != 2 {
			t.Errorf("job %s was started %d times", job, n)
		}
	}
	if len(started) != 2*each {
		t.Errorf("%d jobs were started", len(started))
	}
	for _, check := range []string{"journal diff", "journal verify"} {
		if got := jobctl(t, master, append([]string{"--master"}, strings.Fields(check)...)...); got.code != 0 {
			t.Errorf("%s: %+v", check, got)
		}
	}
}
