package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// Processes that were replaced leave nothing in the runner: no descriptor, no zombie, no thread.
func TestProcessesThatWereReplacedLeaveNothing(t *testing.T) {
	t.Parallel()
	k := keep(t, t.TempDir())
	k.SetPools([]jobexec.Pool{{
		Target: "mail", Mode: jobexec.ModePool, Argv: []string{"/bin/sh", "-c", poolLoop},
		Env: append(os.Environ(), "JOBS="+k.jobs), Slots: 2, Keep: jobexec.Keep{MaxJobs: 1},
	}})
	pid := k.Standing().PID
	has := func(what string) int {
		t.Helper()
		entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, what)))(t)
		return len(entries)
	}
	children := func() (n int) {
		of, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // of each thread its own
		if err != nil || len(of) == 0 {
			t.Fatal(of, err)
		}
		for _, list := range of {
			text := must.Get(os.ReadFile(list))(t)
			n += len(strings.Fields(string(text)))
		}
		return n
	}
	job := int64(0)
	after := func(jobs int64) held {
		for ; job < jobs; job++ {
			if done, err := wait(asked(t, k.Remote, k.spec(job+1, "true"))); err != nil || done.Result != "ok" {
				t.Fatalf("job %d: %+v, %v", job, done, err)
			}
			k.Forget(job+1, workerToken, 1)
		}
		k.until("new ones are ready", func(s jobexec.PoolStanding) bool {
			return s.Recycled["max_jobs"] == jobs && s.Ready == 2 && s.Processes == 2 && s.Jobs == jobs
		})
		return held{has("fd"), has("task"), children()}
	}
	few, many := after(10), after(recycles)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(hung); !many.within(few); many = after(recycles) { // while it reads below /proc it has more
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("the runner has %+v after 10 jobs, %+v after %d", few, many, recycles)
		}
	}
}

// held is how much a process has.
type held struct{ descriptors, threads, children int }

func (h held) within(most held) bool {
	return h.descriptors <= most.descriptors && h.threads <= most.threads && h.children <= most.children
}

// recycles is how many processes are replaced there.
const recycles = 200
