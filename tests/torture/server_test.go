package torture

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// newServer starts a database server of the test's own.
func newServer(t *testing.T) *dbserver.Server {
	t.Helper()
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// The database server is killed over and over under load.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	kills := size(3, 30)
	s := newSiteOn(t, server, "", map[string]int{"a": 4}, polling)
	s.start(t)
	for range kills {
		s.insert(t, size(100, 300), "a")
		awaitProgress(t, s, s.jobs-size(50, 200))
		must.Do(t, server.Kill())
		must.Do(t, server.Restart(t.Context()))
	}
	s.awaitDone(t)
	suite.matrix.add(line{fault: "5 database server killed", runs: kills, tally: s.known(t)})
}

// The server is read-only for a while, as after a failover.
func TestServerReadOnly(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := newSiteOn(t, server, "", map[string]int{"a": 4}, polling)
	s.start(t)
	s.insert(t, size(300, 3000), "a")
	awaitProgress(t, s, s.jobs/3)
	readOnly := func(value int) {
		must.Get(server.Admin().ExecContext(t.Context(), fmt.Sprintf("SET GLOBAL read_only = %d", value)))(t)
	}
	readOnly(1)
	<-time.After(size(3*time.Second, 30*time.Second)) // that is how long it is read-only
	before, begun := s.Count(t, "status = 'done'"), time.Now()
	if before == s.jobs {
		t.Fatal("all jobs were done before the server was read-only")
	}
	readOnly(0)
	awaitProgress(t, s, before+1)
	back := time.Since(begun)
	s.awaitDone(t)
	suite.matrix.add(line{
		fault: "5 database server read-only", runs: 1, tally: s.known(t),
		note: fmt.Sprintf("goes on %s after", back.Round(time.Millisecond)),
	})
}

// Many workers share some targets: each job is started once, and no deadlock surfaces.
func TestManyWorkersOnSharedTargets(t *testing.T) {
	t.Parallel()
	targets := map[string]int{"a": 2, "b": 2, "c": 1, "d": 1}
	s := newSite(t, "", targets, polling)
	for i := range size(400, 5000) {
		s.insert(t, 1, string(rune('a'+i%4)))
	}
	var workers []*harness.Daemon
	var journals []string
	for i := range size(6, 20) {
		settings := s.worker(t, fmt.Sprintf("worker-%d", i)).With(harness.Targets(targets), polling)
		workers = append(workers, harness.Launch(t, "jobd", settings.Write(t), settings.Addr()))
		journals = append(journals, settings["journal_dir"])
	}
	s.awaitDone(t)
	for _, worker := range workers {
		worker.Ready(t)
		if found := deadlock.FindString(worker.Output()); found != "" {
			t.Errorf("a worker says: %s", found)
		}
	}
	suite.matrix.add(line{fault: "6 many workers on shared targets", runs: len(workers), tally: s.known(t, journals...)})
}

// deadlock is what the driver says of one, and of a lock wait that ended in vain. A job may have such a number.
var deadlock = regexp.MustCompile(`.*(?i)(deadlock|error 1213|error 1205).*`)
