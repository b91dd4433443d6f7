package main

import (
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
	for i, pid := range pids {
		used[i] = processorTime(p, pid)
	}
	<-time.After(idling)
	readings := make([]reading, len(pids))
	for i, pid := range pids {
		readings[i].value = float64(processorTime(p, pid)-used[i]) / millisecond
	}
	return readings
}

// processorTime is what all threads of a process have used, to the nanosecond: the clock of another process, whose
// number clock_getcpuclockid makes like this. /proc counts in hundredths of a second.
func processorTime(p *program, pid int) time.Duration {
	const scheduled = 2
	var t unix.Timespec
	p.must(unix.ClockGettime(int32(^pid<<3|scheduled), &t))
	return time.Duration(t.Nano())
}
