package runner

import (
	"fmt"
	"os"
	"testing"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// A runner has all of its threads from the start: it makes none later, whatever it does. It would end
// where it could not make one, as when jobs have taken all that their user may have.
func TestARunnerMakesNoThreadsLater(t *testing.T) {
	t.Parallel()
	k := keep(t, t.TempDir())
	threads := func() int {
		t.Helper()
		tasks := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", k.Standing().PID)))(t)
		return len(tasks)
	}
	before := threads()
	k.pool(poolLoop, 4)
	var processes []jobexec.Process
	for job := int64(1); job <= 60; job++ {
		spec := script("head -c 1000 /dev/zero; sleep 1.5") // old enough to be on disk
		if job%4 == 0 {
			spec = k.spec(job, "head -c 1000 /dev/zero")
		}
		spec.Job, spec.Token, spec.Attempt = job, workerToken, 1
		processes = append(processes, asked(t, k.Remote, spec))
	}
	for i, p := range processes {
		if _, err := wait(p); err != nil {
			t.Errorf("job %d: %v", i+1, err)
		}
		k.Forget(int64(i+1), workerToken, 1)
	}
	if after := threads(); after > before {
		t.Errorf("%d threads at the start, %d later", before, after)
	}
}
