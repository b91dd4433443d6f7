package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"jobd/tests/harness"
)

// fleetSize is how many workers share a server; BENCH_FLEET says others. A worker takes 25 MB.
const fleetSize = 100

// fleetRest is how long a worker without work keeps a connection that it doesn't need, and some more.
const fleetRest = 30 * time.Second

// fleetRows are what manyWorkers gives.
func fleetRows() []row {
	return []row{
		{what: "100 workers (BENCH_FLEET) start at once, each with a job that waits: until all jobs are done", unit: "ms"},
		{"connections of a worker at rest", "", atMost(2)},
		{"connections of a worker at most, while all start jobs of one target", "", atMost(3)},
		{what: "processor time of the server for a worker at rest, in 60 s", unit: "ms"},
		{what: "each is poked while the server is down: from its start until the jobs are done ÷ the server's start", unit: "ms"},
		{"logins of a worker meanwhile", "", atMost(4)},
		{what: "logins of all within 100 ms at most", unit: ""},
	}
}

// manyWorkers is what many workers cost one server: where they start, rest and work, and where it restarts.
func manyWorkers(p *program) []reading {
	n := fleetSize
	if asked, err := strconv.Atoi(os.Getenv("BENCH_FLEET")); err == nil && asked > 0 {
		n = asked
	}
	s, server := newSite(p), p.server()
	each := func() {
		_, err := s.Admin.Exec(fmt.Sprintf(
			"INSERT INTO jobs (target, time_created, status) SELECT CONCAT('t', seq), UNIX_TIMESTAMP(), 'waiting' FROM seq_1_to_%d", n))
		p.must(err)
	}

	each()
	daemons := make([]*harness.Daemon, n)
	started := took(func() {
		for i := range daemons {
			own := fmt.Sprint("t", i+1)
			settings := s.Worker(p, "w"+own, launcher, map[string]int{own: 1, "all": 2}).
				With(harness.Settings{"log_level_console": "error"})
			daemons[i] = harness.Launch(p, "jobd", settings.Write(p), settings.Addr())
		}
		s.awaitDone()
	})
	<-time.After(fleetRest)
	rest, before := s.connections(), processorTime(p, serverPid(p))
	<-time.After(idling)
	cost := processorTime(p, serverPid(p)) - before

	pokeAll := func() {
		for _, d := range daemons {
			client := harness.Dial(p, d.Addr)
			client.Ask(p, "poll", nil)
			client.Close()
		}
	}
	busy := s.connectionsWhile(func() {
		s.insert(20*n, "all", "waiting")
		pokeAll()
		s.awaitDone()
	})
	each()
	p.must(server.Stop())
	pokeAll()
	restart := took(func() { p.must(server.Restart(p.Context())) })
	over, most := make(chan struct{}), make(chan float64)
	back := took(func() {
		go func() { most <- s.loginsAtOnce(over) }()
		s.awaitDone()
	})
	close(over)
	one := func(of float64) reading { return reading{value: of / float64(n)} }
	return []reading{
		{value: started},
		one(rest), one(busy), one(float64(cost) / millisecond),
		against(restart+back, restart), one(s.logins()),
		{value: <-most},
	}
}

// logins is how many there were since the server's start.
func (s *site) logins() (n float64) {
	var name string
	s.p.must(s.Admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Connections'").Scan(&name, &n))
	return n
}

// loginsAtOnce is how many there are within 100 ms at most, until it is over.
func (s *site) loginsAtOnce(over <-chan struct{}) (most float64) {
	for last := s.logins(); ; {
		select {
		case <-over:
			return most
		case <-time.After(100 * time.Millisecond):
		}
		now := s.logins()
		last, most = now, max(most, now-last)
	}
}
