package operator

import (
	"fmt"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// What somebody cancelled while it ran has not failed: it is not listed, and not brought back by
// retry --failed; named, it is.
func TestCancelledJobsAreNoFailures(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	gate := t.TempDir() + "/gate"
	launcher := harness.Script(t, "[ $1 = 3 ] && exit 3; while [ ! -e "+gate+" ]; do sleep 0.2; done")
	worker := db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 3}).StartWorker(t)
	for id := int64(1); id <= 3; id++ {
		db.Insert(t, id, "a", "waiting")
	}
	if got := jobctl(t, worker, "poll"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db.AwaitCount(t, 2, "status = 'running'")
	db.AwaitDone(t, 3)
	if got := jobctl(t, worker, "cancel", "1", "2"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db.AwaitCount(t, 3, "status = 'done' AND result = 'fail'")
	list := lines(t, jobctl(t, worker, "failed", "--output", "json").stdout)
	if len(list) != 1 || fmt.Sprint(list[0]["job"]) != "3" {
		t.Errorf("failed: %v", list)
	}
	if got := jobctl(t, worker, "retry", "--failed", "--yes", "--dry-run"); got.code != 0 || !strings.Contains(got.stdout, "3") || strings.Contains(got.stdout, "SIGTERM") {
		t.Errorf("%+v", got)
	}
	if got := jobctl(t, worker, "retry", "1", "--dry-run"); got.code != 0 || !strings.Contains(got.stdout, "SIGTERM") {
		t.Errorf("%+v", got)
	}
}
