package why

import (
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// A runner that is killed leaves jobs of which nobody will know how they end.
func TestARunnerThatIsGone(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, open := gate(t, "exit 0")
	w := db.Worker(t, "node-1", launcher, map[string]int{"a": 1}).StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, w, "poll")
	await(t, w, 1, "running", "job 1 runs on node-1 .*")
	if err := syscall.Kill(w.Runner(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, w, 1, "orphaned", `job 1 runs on node-1 since `+clock+` \(pid \d+\), but its runner is gone: nobody will know how it ends`)
	open()
	await(t, w, 1, "unknown-outcome", `job 1 ended at .*`)
}
