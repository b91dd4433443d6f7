package host

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// threads is how many threads this process has.
func threads(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/task"))(t)
	return len(entries)
}

// Not parallel: it counts the process's goroutines, threads and descriptors.
func TestAThousandRunningJobsHoldTheirDescriptorsOnly(t *testing.T) {
	local := newTestLocal(t)
	goroutines, before, open := runtime.NumGoroutine(), threads(t), descriptors(t)
	const jobs = 1000
	var processes []watched
	for range jobs {
		what := spec{argv: []string{"/bin/sleep", "300"}, maxOutput: 1 << 20}
		processes = append(processes, launch(t, local, what))
	}
	for _, p := range processes {
		<-p.isBegun
	}
	if more := runtime.NumGoroutine() - goroutines; more > 0 {
		t.Errorf("%d running jobs take %d goroutines", jobs, more)
	}
	if more := threads(t) - before; more > 10 {
		t.Errorf("%d running jobs take %d threads", jobs, more)
	}
	if more := descriptors(t) - open; more != 3*jobs {
		t.Errorf("%d running jobs take %d descriptors", jobs, more)
	}
	for _, p := range processes {
		if err := p.signal(9); err != nil {
			t.Error(err)
		}
	}
	for _, p := range processes {
		if done := p.wait(); done.Signal != "SIGKILL" {
			t.Errorf("done %+v", done)
		}
	}
	if more := descriptors(t) - open; more != 0 {
		t.Errorf("%d descriptors are left open", more)
	}
}

// Not parallel: it takes the process's descriptors away.
func TestWithoutDescriptorsAStartIsRefused(t *testing.T) {
	local := newTestLocal(t)
	var limit unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	open := descriptors(t)
	lowest, err := unix.Dup(0) // the first number that is free
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(lowest)
	for more := range 8 { // each step of a start finds none left in turn
		low := unix.Rlimit{Cur: uint64(lowest + more), Max: limit.Max}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		local.watcher.(*witness).refusal = refusedError{}
		p, refusal := try(local, script("exit 0"))
		if restoreErr := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); restoreErr != nil {
			t.Fatal(restoreErr)
		}
		switch {
		case refusal.text != "" && !strings.HasSuffix(refusal.text, "too many open files"):
			t.Errorf("with %d descriptors: %s", more, refusal.text)
		case refusal.text == "" && more < 5:
			t.Errorf("with %d descriptors process %d was started", more, p.started.Pid)
		case refusal.text == "":
			p.wait()
		}
	}
	if more := descriptors(t) - open; more != 0 {
		t.Errorf("%d descriptors are left open", more)
	}
}
