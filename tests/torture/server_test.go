package torture

import (
	"fmt"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
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
