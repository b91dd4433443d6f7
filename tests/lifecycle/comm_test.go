package lifecycle

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Whoever looks for the worker by its name, as ss, pgrep and the kernel's log have it, finds it, also
// after a restart; pkill jobd finds no runner.
func TestNamesOfProcesses(t *testing.T) {
	t.Parallel()
	settings := harness.NewDatabase(t).Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1})
	worker := harness.LaunchBinary(t, harness.Program(t, "jobd"), settings.Write(t), settings.Addr()).Ready(t)
	for _, when := range []string{"when it was started", "after a restart"} {
		if got := comm(t, worker.Pid); got != "jobd" {
			t.Errorf("the worker is called %q %s", got, when)
		}
		if got := comm(t, worker.Runner(t)); got != "job-runner" {
			t.Errorf("its runner is called %q %s", got, when)
		}
		if out, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(worker, "restart")...).CombinedOutput(); err != nil {
			t.Fatalf("jobctl restart: %v: %s", err, out)
		}
	}
}

func comm(t *testing.T, pid int) string {
	t.Helper()
	name := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)))(t)
	return strings.TrimSpace(string(name))
}
