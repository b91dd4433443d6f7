package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// How many workers there are, and in how many processes: a process of its own for each, beside its runner, is more
// than the machine has. All else is a daemon's own, from its configuration on.
const (
	thousandWorkers   = 1000
	thousandProcesses = 10
	thousandDown      = 15 * time.Second // the server stays away so long
)

// thousand has a thousand workers start, idle and outlast a restart of their server.
func thousand(p *program) []reading {
	dir := p.TempDir()
	rows := filepath.Join(dir, "rows.sql") // what the server does before it takes connections
	p.must(os.WriteFile(rows, nil, 0o644))
	server, err := dbserver.Start(p.Context(), dbserver.Options{Durable: true, Args: []string{"--max-connections=6000", "--back-log=1000", "--init-file=" + rows}})
	p.must(err)
	p.Cleanup(func() { p.must(server.Close()) })
	s := &site{harness.NewDatabaseOn(p, server), p}
	master := s.master()

	load := watchServer(s)
	s.startThousand(master)
	harness.AwaitWorkers(p, master, "", thousandWorkers)
	start := load.take()
	<-time.After(45 * time.Second) // a worker closes what it has not used for 20 s
	load.take()
	resting := s.connections()
	const rest = 60 * time.Second
	<-time.After(rest)
	idle := load.take()

	p.must(os.WriteFile(rows, fmt.Appendf(nil, "INSERT INTO %s.jobs (target, time_created, status) SELECT CONCAT('t', seq), UNIX_TIMESTAMP(), 'waiting' FROM %s.seq_1_to_%d;\n",
		s.Name, s.Name, thousandWorkers), 0o644))
	p.must(server.Stop())
	<-time.After(thousandDown)
	load.take()
	p.must(server.Restart(p.Context()))
	claimed := s.claimTimes(time.Now())
	again := load.take()
	return []reading{
		{value: resting / thousandWorkers},
		{value: sum(idle.statements) / rest.Seconds(), raw: sum(idle.statements) / rest.Seconds() / thousandWorkers},
		{value: slices.Max(start.connects), raw: median(start.connects)},
		{value: slices.Max(again.connects), raw: median(again.connects)},
		{value: slices.Max(again.statements), raw: median(again.statements)},
		{value: claimed[thousandWorkers/2], raw: claimed[0]},
		{value: claimed[thousandWorkers*99/100]},
		{value: claimed[thousandWorkers-1]},
	}
}

// startThousand starts the workers, all at once.
func (s *site) startThousand(master *harness.Daemon) {
	var configs []string
	for i := range thousandWorkers {
		settings := s.Worker(s.p, fmt.Sprint("w", i+1), launcher, map[string]int{fmt.Sprint("t", i+1): 2}).
			With(harness.MasterOf(master), harness.Settings{"log_level_console": "error", "port": "0"}).
			Without("master_reconnect_timeout")
		configs = append(configs, settings.Write(s.p))
	}
	each := thousandWorkers / thousandProcesses
	for some := range slices.Chunk(configs, each) {
		cmd := exec.Command(harness.Armed(s.p), append([]string{"many"}, some...)...)
		cmd.Stderr = os.Stderr
		s.p.must(cmd.Start())
		s.p.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// claimTimes is after how many seconds each worker has claimed the row of its target, the first one first.
func (s *site) claimTimes(since time.Time) (seconds []float64) {
	for len(seconds) < thousandWorkers {
		waiting := s.Count(s.p, "status = 'waiting'")
		for len(seconds) < thousandWorkers-waiting {
			seconds = append(seconds, time.Since(since).Seconds())
		}
		if time.Since(since) > 5*time.Minute {
			s.p.Fatalf("%d rows are not claimed", waiting)
		}
		<-time.After(100 * time.Millisecond)
	}
	return seconds
}

// serverLoad is how many connects and statements a server had, second by second.
type serverLoad struct{ connects, statements []float64 }

// loadWatch counts them until the benchmark ends.
type loadWatch struct{ want chan chan serverLoad }

// take gives what was counted since the last time.
func (w loadWatch) take() serverLoad {
	answer := make(chan serverLoad)
	w.want <- answer
	return <-answer
}

// watchServer watches the site's server, which may be away meanwhile.
func watchServer(s *site) loadWatch {
	w := loadWatch{make(chan chan serverLoad)}
	ctx, stop := context.WithCancel(s.p.Context())
	s.p.Cleanup(stop)
	go func() {
		var all serverLoad
		var connects, statements float64 // so far
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		look := func() {
			var c, q float64
			if s.Admin.QueryRowContext(ctx, `SELECT SUM(IF(VARIABLE_NAME = 'CONNECTIONS', VARIABLE_VALUE, 0)), SUM(IF(VARIABLE_NAME = 'QUESTIONS', VARIABLE_VALUE, 0))
				FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('CONNECTIONS', 'QUESTIONS')`).Scan(&c, &q) != nil {
				connects, statements = 0, 0 // it counts from the beginning, when it is back
				return
			}
			all.connects, all.statements = append(all.connects, c-connects), append(all.statements, q-statements)
			connects, statements = c, q
		}
		look()
		all = serverLoad{}
		for {
			select {
			case <-tick.C:
				look()
			case answer := <-w.want:
				answer <- all
				all = serverLoad{}
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}
