package runner

import (
	"os"
	"strconv"
	"strings"
	"testing"

	jobexec "jobd/exec"
)

// Not parallel: it counts the process's threads.
func TestRunningJobsHoldNoThreads(t *testing.T) {
	local := newLocal(t)
	before := threads(t)
	const jobs = 200
	var processes []jobexec.Process
	for range jobs {
		processes = append(processes, start(t, local, script("exec sleep 300")))
	}
	if more := threads(t) - before; more > jobs/4 {
		t.Errorf("%d running jobs take %d threads", jobs, more)
	}
	for _, p := range processes {
		if err := p.Signal(9); err != nil {
			t.Error(err)
		}
	}
	for _, p := range processes {
		if done, _ := wait(p); done.Signal != "SIGKILL" {
			t.Errorf("done %+v", done)
		}
	}
}

// threads is how many threads this process has.
func threads(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "Threads:")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
