package operator

import (
	"testing"

	"jobd/tests/harness"
)

// A time that is over is told as that, not as a daemon that has not answered.
func TestWaitTellsThatTheTimeIsOver(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "node-1", harness.Script(t, "true"), map[string]int{"a": 1}).StartWorker(t)
	db.Insert(t, 1, "a", "manual")
	got := jobctl(t, worker, "wait", "1", "--timeout", "2s")
	if want := "jobctl: after 2s 1 job not done: job 1 is manual\n"; got.code != 5 || got.stderr != want {
		t.Errorf("%+v, want %q", got, want)
	}
}
