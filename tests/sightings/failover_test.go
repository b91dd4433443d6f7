package sightings

import (
	"fmt"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// follow starts a primary with a database of the test's, and a replica.
func follow(t *testing.T) (primary, replica *dbserver.Server, db, after *harness.Database) {
	t.Helper()
	primary, replica, err := dbserver.StartFollowed(t.Context(), dbserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, server := range []*dbserver.Server{primary, replica} {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	db = harness.NewDatabaseOn(t, primary)
	after = &harness.Database{Name: db.Name, Account: db.Account, Addr: replica.Addr()}
	if after.Admin, err = replica.Open(db.Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { after.Admin.Close() })
	return primary, replica, db, after
}

// The primary is killed under load, and a replica that followed it no more for a while is promoted. There
// most rows of the last while read as they did before they ran, and some are not there. No job runs twice;
// the rows get what the journal knows; the journal tells how many; and new jobs that get the ids of
// those that were lost are jobs of their own. A worker that was killed with the primary does the same at
// its next start.
func TestFailoverToAReplicaThatLags(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"the worker lives": false, "the worker is killed too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failover(t, killed)
		})
	}
}

func failover(t *testing.T, killed bool) {
	jobs := int64(size(200, 2000))
	primary, replica, db, after := follow(t)
	l := newLauncher(t).slow(t)
	to := harness.NewLink(t, primary.Addr())
	s := db.Worker(t, "worker", l.command, map[string]int{"a": 4, "b": 2}).With(to.ToDatabase())
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, jobs)...)
	poll(t, worker)
	harness.Until(t, func() string { return atLeast(t, db, 40, "status = 'done'") })
	harness.Until(t, func() string {
		var n int
		if err := after.Admin.QueryRow("SELECT COUNT(*) FROM jobs WHERE status = 'done'").Scan(&n); err != nil || n < 20 {
			return fmt.Sprintf("the replica has %d done rows: %v", n, err)
		}
		return ""
	})
	must.Do(t, replica.StopFollowing(t.Context()))
	behind := after.Count(t, "status = 'done'")
	insert(t, db, "b", "waiting", span(jobs+1, jobs+10)...) // these will be lost
	poll(t, worker)
	harness.Until(t, func() string { return atLeast(t, db, behind+int(jobs)/4, "target = 'a' AND status = 'done'") })
	awaitCount(t, db, 10, "target = 'b' AND status = 'done'")
	if killed {
		worker.Kill(t)
	}
	must.Do(t, primary.Kill())
	must.Do(t, replica.Promote(t.Context()))
	to.Lead(replica.Addr())
	if killed {
		worker = s.StartWorker(t)
	}
	awaitCount(t, after, int(jobs), "status = 'done' AND result = 'ok'")
	l.expectOnce(t, int(jobs)+10)
	harness.Until(t, func() string { return untoldServer(t, s) })

	<-time.After(3 * time.Second) // so that new rows are newer than the claims of the lost ones
	insert(t, after, "b", "waiting", span(jobs+1, jobs+10)...)
	poll(t, worker)
	awaitCount(t, after, int(jobs)+10, "status = 'done' AND result = 'ok'")
	starts := l.starts(t)
	for id := int64(1); id <= jobs+10; id++ {
		want := 1
		if id > jobs {
			want = 2 // two jobs
		}
		if got := starts[fmt.Sprint(id)]; got != want {
			t.Errorf("job %d was started %d times, want %d", id, got, want)
		}
	}
}

// untoldServer tells what is missing where the journal does not say that the server is another one, and
// how many rows were mended.
func untoldServer(t *testing.T, s harness.Settings) string {
	t.Helper()
	reader := must.Get(replay.Open(s["journal_dir"]))(t)
	var told []journal.Server
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: []journal.Kind{journal.KindServer}}) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, e.Payload.(journal.Server))
	}
	if last := len(told) - 1; last < 0 || told[last].Before == "" || told[last].Mended == 0 {
		return fmt.Sprintf("the journal tells of servers %+v", told)
	}
	return ""
}

func atLeast(t *testing.T, r rows, n int, where string) string {
	t.Helper()
	if got := r.Count(t, where); got < n {
		return fmt.Sprintf("%d rows, not %d, where %s", got, n, where)
	}
	return ""
}
