package runner

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// benchJobs is how many jobs run at once in benchmarks.
const benchJobs = 10

// Starts through a runner process, as a worker does them.
func BenchmarkStart(b *testing.B) { benchmarkStart(b, 0) }

// The same with jobs that may run for a day only.
func BenchmarkStartLimited(b *testing.B) { benchmarkStart(b, 24*time.Hour) }

func benchmarkStart(b *testing.B, timeout time.Duration) {
	remote := must.Get(Open(workerConfig(b.TempDir())))(b)
	defer remote.Close()
	instance := must.Get(remote.Instance())(b)
	env := os.Environ()
	pid := parentOfJobs(b, remote, instance)
	b.ReportAllocs()
	before := cpuTime(b, pid)
	atOnce(b, func(job int64) error {
		p, err := remote.Start(jobexec.Spec{
			Job: job, Token: "@abcdefghi", Attempt: 1, Runner: instance, Argv: []string{"/bin/true", "1"}, Env: env, MaxOutput: 1 << 20,
			Timeout: timeout, KillAfter: timeout,
		})
		if err != nil {
			return err
		}
		if _, err := wait(p); err != nil {
			return err
		}
		remote.Forget(job, "@abcdefghi", 1)
		return nil
	})
	b.ReportMetric(float64(cpuTime(b, pid)-before)/1e6/float64(b.N), "runner-cpu-ms/op")
}

// The same through os/exec, with nothing between.
func BenchmarkRaw(b *testing.B) {
	env := os.Environ()
	b.ReportAllocs()
	atOnce(b, func(int64) error {
		var stdout, stderr bytes.Buffer
		cmd := exec.Command("/bin/true", "1")
		cmd.Env, cmd.Stdout, cmd.Stderr = env, &stdout, &stderr
		return cmd.Run()
	})
}

// atOnce does something b.N times, benchJobs at once.
func atOnce(b *testing.B, do func(job int64) error) {
	b.Helper()
	jobs := make(chan int64)
	var workers sync.WaitGroup
	for range benchJobs {
		workers.Go(func() {
			for job := range jobs {
				if err := do(job); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	for job := range int64(b.N) {
		jobs <- job
	}
	close(jobs)
	workers.Wait()
	b.StopTimer()
}

// parentOfJobs finds the runner's process.
func parentOfJobs(b *testing.B, remote *Remote, instance string) (pid int) {
	b.Helper()
	spec := script("echo $PPID")
	spec.Job, spec.Attempt, spec.Runner = -1, 1, instance
	p := must.Get(remote.Start(spec))(b)
	done := must.Get(wait(p))(b)
	remote.Forget(-1, "", 1)
	must.Get(fmt.Sscan(string(done.Stdout.Kept), &pid))(b)
	return pid
}

// cpuTime is what all threads of a process had of the processors, in nanoseconds; their children
// are not counted.
func cpuTime(b *testing.B, pid int) (sum int64) {
	b.Helper()
	threads := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)))(b)
	for _, thread := range threads {
		stat := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, thread.Name())))(b)
		var spent int64
		must.Get(fmt.Sscan(strings.Fields(string(stat))[0], &spent))(b)
		sum += spent
	}
	return sum
}
