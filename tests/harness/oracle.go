package harness

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
)

// Oracle is the file to which jobs append their ids when they start.
type Oracle string

// Starts tells how often each job was started.
func (o Oracle) Starts(t *testing.T) map[string]int {
	t.Helper()
	content, err := os.ReadFile(string(o))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, id := range strings.Fields(string(content)) {
		starts[id]++
	}
	return starts
}

// AwaitStarts waits until n jobs were started.
func (o Oracle) AwaitStarts(t *testing.T, n int) {
	t.Helper()
	Until(t, func() string {
		if starts := o.Starts(t); len(starts) != n {
			return fmt.Sprintf("%d jobs were started, not %d: %v", len(starts), n, starts)
		}
		return ""
	})
}

// ExpectOnce checks that n jobs were started, each once.
func (o Oracle) ExpectOnce(t *testing.T, n int) {
	t.Helper()
	starts := o.Starts(t)
	check.Equal(t, len(starts), n, "jobs were started")
	for id, times := range starts {
		check.Equal(t, times, 1, "job %s was started … times", id)
	}
}

// KillJob kills a job's process group, if the process still is one of that launcher.
func KillJob(launcher string, pid int) {
	words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && bytes.Contains(words, []byte(launcher)) {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may end by itself meanwhile
	}
}
