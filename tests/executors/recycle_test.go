package executors

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// jobctl recycle --wait ends when the last old process has gone, which is when its job has ended.
func TestRecycleWaitsForTheJobsOfOldProcesses(t *testing.T) {
	t.Parallel()
	var kept []executor
	for _, e := range executors() {
		if e.stays {
			kept = append(kept, e)
		}
	}
	s := newSiteOf(t, kept, 2)
	for _, e := range kept {
		s.insert(e, 0, "gate", waiting)
	}
	worker := s.start()
	for _, e := range kept {
		s.awaitStart(s.id(e, 0), 1)
		harness.Until(t, func() string {
			if got := s.standings()[e.name]; got.Ready != 1 || got.Busy != 1 {
				return fmt.Sprintf("it stands %+v", got)
			}
			return ""
		})
	}
	command := exec.Command(harness.Program(t, "jobctl"), "--port", strings.Split(worker.Addr, ":")[1], "--timeout", harness.Patience.String(), "recycle", "--wait")
	ended := make(chan string, 1)
	go func() {
		output, err := command.CombinedOutput()
		ended <- fmt.Sprint(string(output), err)
	}()
	for _, e := range kept {
		harness.Until(t, func() string { // the process without a job is another one by now
			if got := s.standings()[e.name]; got.Old != 1 || got.Recycled["recycle"] != 1 {
				return fmt.Sprintf("it stands %+v", got)
			}
			return ""
		})
	}
	select {
	case said := <-ended:
		t.Errorf("it has ended while jobs run in old processes: %s", said)
	default:
	}
	s.open()
	if said := <-ended; said != "ok\nno old process is left\n<nil>" {
		t.Errorf("it says %q", said)
	}
	for _, e := range kept {
		if got := s.standings()[e.name]; got.Old != 0 || got.Recycled["recycle"] != 2 {
			t.Errorf("in the end it stands %+v", got)
		}
	}
}
