package operator

import (
	"strings"
	"testing"

	"jobd/tests/harness"
)

// A job that was ignored, and retried after that, is no conflict at the next start: it is as the
// journal says.
func TestARetriedJobIsNoConflictOfAnOldCancel(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", harness.Script(t, "true"), map[string]int{"a": 1})
	worker := settings.StartWorker(t)
	db.Insert(t, 1, "nobody serves it", "waiting")
	db.Insert(t, 2, "a", "manual")
	for _, command := range []string{"cancel", "retry"} {
		if got := jobctl(t, worker, command, "1", "2"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
	}
	worker.Kill(t)
	worker = settings.StartWorker(t)
	if got := jobctl(t, worker, "run-manual", "2"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db.AwaitDone(t, 2)
	if got := jobctl(t, worker, "journal", "log", "--kind", "conflict"); got.code != 0 || strings.Contains(got.stdout, "conflict") {
		t.Errorf("%+v", got)
	}
	if got := jobctl(t, worker, "why", "1"); !strings.Contains(got.stdout, "retried") {
		t.Errorf("%+v", got)
	}
}
