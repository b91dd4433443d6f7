package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"jobd/tests/harness"
)

// costs is the processor time that each process spends on a job that does nothing: a worker with ten slots, then eight
// workers with two.
func costs(p *program) []reading {
	alone, together := newSite(p), newSite(p)
	d := alone.worker("bench", launcher, map[string]int{"a": concurrency})
	client := harness.Dial(p, d.Addr)
	team, poke := together.team(workers, slots)
	one := alone.costOfDrain([]*harness.Daemon{d}, func() { client.Ask(p, "poll", nil) })
	eight := together.costOfDrain(team, poke)
	readings := make([]reading, len(one))
	for i := range readings {
		readings[i] = against(eight[i], one[i])
	}
	return readings
}

// costOfDrain is the microseconds of processor time a job that workers, runners and the server spend.
func (s *site) costOfDrain(team []*harness.Daemon, poke func()) [3]float64 {
	var pids [3][]int
	for _, d := range team {
		pids[0], pids[1] = append(pids[0], d.Pid), append(pids[1], d.Runner(s.p))
	}
	pids[2] = []int{serverPid(s.p)}
	s.drainRate(500, "a", poke)
	var before, cost [3]float64
	for i := range pids {
		before[i] = used(s.p, pids[i])
	}
	s.drainRate(drained, "a", poke)
	for i := range pids {
		cost[i] = (used(s.p, pids[i]) - before[i]) / drained
	}
	return cost
}

// used is the microseconds of processor time that processes have used.
func used(p *program, pids []int) (micros float64) {
	for _, pid := range pids {
		micros += float64(processorTime(p, pid)) / float64(time.Microsecond)
	}
	return micros
}

// serverPid is the process of the database server, which is our child.
func serverPid(p *program) int {
	ours := fmt.Sprintf(") S %d ", os.Getpid())
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	p.must(err)
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(stat), "(mariadbd"+ours) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			p.must(err)
			return pid
		}
	}
	p.Fatal("the database server's process was not found")
	return 0
}
