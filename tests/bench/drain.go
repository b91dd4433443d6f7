package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"

	"jobd/tests/harness"
)

const (
	drained     = 5000
	concurrency = 10
)

// drain is a worker that empties a table of jobs that do nothing, beside as many processes spawned by hand.
func drain(p *program) []reading {
	s := newSite(p)
	client := harness.Dial(p, s.worker("bench", launcher, map[string]int{"a": concurrency}).Addr)
	s.drainRate(500, "a", func() { client.Ask(p, "poll", nil) }) // what happens once in a worker's life is no part of it
	return []reading{paired(3,
		func() float64 { return spawnRate(p, drained) },
		func() float64 { return s.drainRate(drained, "a", func() { client.Ask(p, "poll", nil) }) },
	)}
}

// spawnRate is how many no-op processes a second this machine starts, captures and reaps.
func spawnRate(p *program, n int) float64 {
	var next atomic.Int64
	return rate(n, func() {
		atOnce(concurrency, func() {
			for next.Add(1) <= int64(n) {
				if err := spawn(noop, "1000"); err != nil { // with an argument, as the launcher has one, /bin/true does more
					p.Logf("%s: %v", noop, err)
				}
			}
		})
	})
}

// spawn runs a process to its end as any program would that wants to know what it writes.
func spawn(argv ...string) error {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd.Run()
}

const (
	workers = 8
	slots   = 2 // of each of them
	shared  = 4000
)

// workersOnOneTarget is several workers that claim from one target, beside one that has all their slots.
func workersOnOneTarget(p *program) []reading {
	alone, together := newSite(p), newSite(p)
	single := harness.Dial(p, alone.worker("alone", launcher, map[string]int{"a": workers * slots}).Addr)
	daemons, poke := together.team(workers, slots)
	before := together.deadlocks()
	rates := paired(3,
		func() float64 { return alone.drainRate(shared, "a", func() { single.Ask(p, "poll", nil) }) },
		func() float64 { return together.drainRate(shared, "a", poke) },
	)
	warnings := 0
	for _, d := range daemons {
		if said := d.Output(); said != "" {
			warnings += strings.Count(said, "\n")
			p.Logf("%s", said)
		}
	}
	return []reading{rates, against(float64(warnings), together.deadlocks()-before)}
}

// team starts so many workers on one target and their master; poke wakes them all.
func (s *site) team(n, slots int) (daemons []*harness.Daemon, poke func()) {
	master := s.master()
	for i := range n {
		daemons = append(daemons, s.worker(fmt.Sprint("w", i), launcher, map[string]int{"a": slots}, harness.MasterOf(master)))
	}
	harness.AwaitWorkers(s.p, master, "", n)
	client := harness.Dial(s.p, master.Addr)
	return daemons, func() { client.Ask(s.p, "poke", map[string]any{"targets": []string{"a"}}) }
}

// deadlocks is how many the server met so far.
func (s *site) deadlocks() (n float64) {
	var name string
	s.p.must(s.Admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&name, &n))
	return n
}
