package main

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"jobd/tests/harness"
)

// noop is the job that costs nothing but its process.
const (
	noop     = "/bin/true"
	launcher = noop + " {id}"
)

// look is how often the table is looked at while it drains, at most.
const look = 10 * time.Millisecond

// site is a database of a benchmark's own.
type site struct {
	*harness.Database
	p *program
}

func newSite(p *program) *site {
	s := &site{harness.NewDatabaseOn(p, p.server()), p}
	p.Cleanup(func() { _, _ = s.Admin.Exec("DROP DATABASE " + s.Name) }) // what it leaves to the server is not to disturb the next
	return s
}

// insert adds n jobs and gives the first one's id; the others follow it.
func (s *site) insert(n int, target, status string) (first int64) {
	result, err := s.Admin.Exec(fmt.Sprintf(
		"INSERT INTO jobs (target, time_created, status) SELECT ?, UNIX_TIMESTAMP(), ? FROM seq_1_to_%d", n), target, status)
	s.p.must(err)
	first, err = result.LastInsertId()
	s.p.must(err)
	return first
}

// worker starts a jobd that says only what is wrong.
func (s *site) worker(name, launcher string, targets map[string]int, others ...harness.Settings) *harness.Daemon {
	quiet := harness.Settings{"log_level_console": "warn"}
	return s.Worker(s.p, name, launcher, targets).With(quiet).With(others...).StartWorker(s.p)
}

// master starts a jobd-master that says only what is wrong.
func (s *site) master() *harness.Daemon {
	return harness.StartMaster(s.p, harness.Settings{"log_level_console": "warn"})
}

// drainRate is how many jobs a second go from waiting to done: from poke, which is called when they
// are there, to the last row.
func (s *site) drainRate(n int, target string, poke func()) float64 {
	first := s.insert(n, target, "waiting")
	drained := rate(n, func() {
		poke()
		s.awaitDone()
	})
	if ok := s.Count(s.p, "id >= ? AND result = 'ok'", first); ok != n {
		s.p.Fatalf("%d of %d jobs are ok", ok, n)
	}
	return drained
}

// awaitDone waits until no job is left. Looking must not cost what is measured: what a look wakes takes jobs off
// their processors. So the longer it takes, the more seldom are the looks; they are late by 1 % at most.
func (s *site) awaitDone() {
	began := time.Now()
	for _, status := range []string{"waiting", "accepted", "running"} { // a job only goes from one to the next
		for s.someHave(status) {
			took := time.Since(began)
			if took > 15*time.Minute {
				s.p.Fatalf("%d jobs are not done", s.Count(s.p, "status <> 'done'"))
			}
			<-time.After(max(look, took/100))
		}
	}
}

// someHave tells whether any job has the status. It reads one entry at the end of the index: claims take from the
// beginning, and leave there what the server has still to sweep up.
func (s *site) someHave(status string) bool {
	var id int64
	err := s.Admin.QueryRow("SELECT id FROM jobs WHERE status = ? ORDER BY target DESC, id DESC LIMIT 1", status).Scan(&id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.p.Fatal(err)
	}
	return err == nil
}
