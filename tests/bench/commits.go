package main

import (
	"slices"
	"time"

	"jobd/tests/harness"
)

// commits is what a drain costs the server, of eight workers with two slots on one target beside one with all of their
// slots; then how long a lone job takes, and how many connections the one worker has.
func commits(p *program) []reading {
	alone, together := newSite(p), newSite(p)
	client := harness.Dial(p, alone.worker("alone", launcher, map[string]int{"a": workers * slots}).Addr)
	_, poke := together.team(workers, slots)
	poll := func() { client.Ask(p, "poll", nil) }
	var one, eight []drainCost
	for i := range 4 {
		if i%2 == 0 {
			one = append(one, alone.costOfRows(poll))
		}
		eight = append(eight, together.costOfRows(poke))
		if i%2 == 1 {
			one = append(one, alone.costOfRows(poll))
		}
	}
	readings := make([]reading, 0, len(one[0])+2)
	for i := range one[0] {
		of := func(costs []drainCost) (all []float64) {
			for _, c := range costs {
				all = append(all, c[i])
			}
			return all
		}
		readings = append(readings, against(median(of(eight)), median(of(one))))
	}
	lone := alone.loneJobs(client)
	busy := alone.connectionsWhile(func() { alone.drainRate(shared, "a", poll) })
	<-time.After(25 * time.Second) // the worker closes what it has not used for 20 s
	return append(readings, against(percentile(lone, 99), median(lone)), against(busy, alone.connections()))
}

// drainCost is what a job of a drain takes: transactions that write, and microseconds of the server's processor time;
// and how many jobs a second there were.
type drainCost [3]float64

func (s *site) costOfRows(poke func()) drainCost {
	s.drainRate(200, "a", poke) // what was idle has its connections by then
	server := []int{serverPid(s.p)}
	written, micros := s.written(), used(s.p, server)
	rate := s.drainRate(shared, "a", poke)
	return drainCost{(s.written() - written) / shared, (used(s.p, server) - micros) / shared, rate}
}

// written is how many transactions have written something on the server so far.
func (s *site) written() (n float64) {
	s.Exec(s.p, "SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'")
	s.p.must(s.Admin.QueryRow("SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rw_commits'").Scan(&n))
	return n
}

// loneJobs is how many milliseconds each of some manual jobs takes, one after the other.
func (s *site) loneJobs(client *harness.Wire) (millis []float64) {
	const singles, warm = 300, 20
	first := s.insert(singles+warm, "a", "manual")
	for i := range int64(singles + warm) {
		millis = append(millis, took(func() { runManual(s.p, client, first+i) }))
	}
	return millis[warm:]
}

// connections is how many the site's workers have.
func (s *site) connections() (n float64) {
	err := s.Admin.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?", s.Account.User).Scan(&n)
	if err != nil {
		s.p.Logf("count connections: %v", err)
	}
	return n
}

// connectionsWhile is how many connections the site's workers have at most while something is done.
func (s *site) connectionsWhile(do func()) float64 {
	over, seen := make(chan struct{}), make(chan []float64)
	go func() {
		var all []float64
		for {
			all = append(all, s.connections())
			select {
			case <-over:
				seen <- all
				return
			case <-time.After(look):
			}
		}
	}()
	do()
	close(over)
	return slices.Max(<-seen)
}
