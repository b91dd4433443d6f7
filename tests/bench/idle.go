package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/tests/harness"
)

// idling is how long nothing happens.
const idling = 60 * time.Second

// idle is the processor time of a worker, its runner and its master that have nothing to do.
func idle(p *program) []reading {
	s := newSite(p)
	master := s.master()
	d := s.worker("bench", launcher, map[string]int{"a": concurrency}, harness.MasterOf(master))
	harness.AwaitWorkers(p, master, "", 1)
	<-time.After(5 * time.Second) // what a start leaves behind
	pids := []int{d.Pid, d.Runner(p), master.Pid}
	used := make([]time.Duration, len(pids))
	woken := 0
	for i, pid := range pids {
		used[i] = processorTime(p, pid)
		woken -= wakeUps(p, pid)
	}
	<-time.After(idling)
	readings := make([]reading, len(pids))
	for i, pid := range pids {
		readings[i].value = float64(processorTime(p, pid)-used[i]) / millisecond
		woken += wakeUps(p, pid)
	}
	return append(readings, reading{value: float64(woken)})
}

// wakeUps is how often the threads of a process have waited for something so far.
func wakeUps(p *program, pid int) (n int) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	p.must(err)
	for _, file := range threads {
		status, err := os.ReadFile(file)
		p.must(err)
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		var switches int
		_, err = fmt.Sscan(rest, &switches)
		p.must(err)
		n += switches
	}
	return n
}

// processorTime is what all threads of a process have used, to the nanosecond: the clock of another process, whose
// number clock_getcpuclockid makes like this. /proc counts in hundredths of a second.
func processorTime(p *program, pid int) time.Duration {
	const scheduled = 2
	var t unix.Timespec
	p.must(unix.ClockGettime(int32(^pid<<3|scheduled), &t))
	return time.Duration(t.Nano())
}
