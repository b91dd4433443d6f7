package torture

import (
	"syscall"
	"testing"
	"time"

	"jobd/exec/runner/proctest"
)

// The worker, then its runner, then both stand still for a while in the middle of the work, as in
// a machine that is suspended.
func TestStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 8}, polling)
	worker, _ := s.start(t)
	runner := func() int { return runnerOf(s.settings["journal_dir"]) }
	groups := [][]int{{worker.Pid}, {runner()}, {worker.Pid, runner()}}
	for _, pids := range groups {
		s.insert(t, 200, "a")
		awaitProgress(t, s, s.jobs-150)
		signalAll(t, pids, syscall.SIGSTOP)
		<-time.After(size(2*time.Second, 5*time.Minute)) // that is how long they stand still
		signalAll(t, pids, syscall.SIGCONT)
	}
	s.awaitDone(t)
	suite.matrix.add(line{fault: "10 worker, runner, both stand still", runs: len(groups), tally: s.known(t)})
}

func signalAll(t *testing.T, pids []int, signal syscall.Signal) {
	t.Helper()
	for _, pid := range pids {
		if signal == syscall.SIGSTOP {
			proctest.Stop(t, pid)
		} else if err := syscall.Kill(pid, signal); err != nil {
			t.Fatalf("send %s to %d: %v", signal, pid, err)
		}
	}
}
