package sightings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/check"
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
			check.Do(t, server.Close())
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
	l := harness.NewOracle(t, "sleep 0.03")
	to := harness.NewLink(t, primary.Addr())
	s := db.Worker(t, "worker", l.Command, map[string]int{"a": 4, "b": 2}).With(to.ToDatabase())
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
	l.ExpectOnce(t, int(jobs)+10)
	harness.Until(t, func() string { return untoldServer(t, s) })

	<-time.After(3 * time.Second) // so that new rows are newer than the claims of the lost ones
	insert(t, after, "b", "waiting", span(jobs+1, jobs+10)...)
	poll(t, worker)
	awaitCount(t, after, int(jobs)+10, "status = 'done' AND result = 'ok'")
	for id := int64(1); id <= jobs+10; id++ {
		want := 1
		if id > jobs {
			want = 2 // two jobs
		}
		check.Equal(t, len(l.Starts(t, id)), want, "job %d was started … times", id)
	}
}

// untoldServer tells what is missing where the journal does not say that the server is another one, and
// how many rows were mended.
func untoldServer(t *testing.T, s harness.Settings) string {
	t.Helper()
	var told []journal.Server
	for _, e := range harness.Events(t, s, journal.KindServer) {
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

// gateOfOne has job 1 wait until it is let go.
const gateOfOne = "[ $id != 1 ] || " + harness.Gate

// Two workers of one name on one table: the second one is refused, with words that name the first, and
// touches none of its rows.
func TestASecondWorkerOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]func(*testing.T, string) (rows, harness.Settings){
		"mysql": func(t *testing.T, command string) (rows, harness.Settings) {
			db := harness.NewDatabase(t)
			return db, db.Worker(t, "worker", command, map[string]int{"a": 1})
		},
		"sqlite": func(t *testing.T, command string) (rows, harness.Settings) {
			f := newFile(t)
			return f, f.worker(t, command, map[string]int{"a": 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := harness.NewOracle(t, gateOfOne)
			r, s := table(t, l.Command)
			s = s.With(harness.Settings{"name": "twin"})
			first := s.StartWorker(t)
			insert(t, r, "a", "waiting", 1)
			poll(t, first)
			l.AwaitStarts(t, 1)
			awaitCount(t, r, 1, "status = 'running'")
			s = s.With(harness.Settings{"port": harness.FreePort(t), "journal_dir": t.TempDir() + "/journal"})
			second := harness.Launch(t, "jobd", s.Write(t), s.Addr())
			harness.Until(t, func() string {
				if second.Running() {
					return "the second one runs"
				}
				return ""
			})
			if code := second.ExitCode(t); code != 1 || !strings.Contains(second.Output(), "twin") {
				t.Errorf("exit code %d: %s", code, second.Output())
			}
			l.LetGo(t)
			awaitCount(t, r, 1, "status = 'done' AND result = 'ok'")
			l.ExpectOnce(t, 1)
		})
	}
}

// A worker that was killed goes on when it starts again, also behind a proxy that keeps its connections,
// where the server does not notice that it is gone. It claimed nothing for half a minute then.
func TestAKilledWorkerIsBackAtOnce(t *testing.T) {
	t.Parallel()
	for name, lingers := range map[string]bool{"noticed": false, "unnoticed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, l := harness.NewDatabase(t), harness.NewOracle(t, "")
			to := harness.NewLink(t, db.Addr)
			s := db.Worker(t, "worker", l.Command, map[string]int{"a": 1}).With(to.ToDatabase())
			worker := s.StartWorker(t)
			for i := range int64(5) {
				insert(t, db, "a", "waiting", i+1)
				poll(t, worker)
				awaitCount(t, db, int(i)+1, "status = 'done'")
				if lingers {
					to.Linger()
				}
				begun := time.Now()
				worker.Kill(t)
				worker = s.StartWorker(t)
				insert(t, db, "a", "waiting", 100+i)
				poll(t, worker)
				awaitCount(t, db, 1, "id = ? AND status = 'done'", 100+i)
				// The server itself notices after 30 s; the rest is for a busy machine.
				if took := time.Since(begun); took > 20*time.Second {
					t.Errorf("it was back after %s", took)
				}
				if db.Exec(t, "DELETE FROM jobs WHERE id >= 100"); lingers {
					break
				}
			}
		})
	}
}

// Rows bear the worker's mark and a claim that its journal does not know: they are looked for at each
// start and after each outage, and told as of unknown outcome.
func TestOwnRowsThatTheJournalDoesNotKnow(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), harness.NewOracle(t, gateOfOne)
	to := harness.NewLink(t, db.Addr)
	s := db.Worker(t, "worker", l.Command, map[string]int{"a": 1}).With(to.ToDatabase())
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	l.AwaitStarts(t, 1)
	awaitCount(t, db, 1, "status = 'running'")
	stray := func(id int64) {
		insert(t, db, "a", "manual", id)
		db.Exec(t, "UPDATE jobs AS stray JOIN jobs AS own ON own.id = 1 SET stray.status = 'running', "+
			"stray.sig = CONCAT(LEFT(own.sig, 5), '77777') WHERE stray.id = ?", id)
	}
	told := "id = ? AND status = 'done' AND result = 'fail' AND stderr LIKE '%outcome unknown%'"
	stray(50)
	worker.Kill(t)
	worker = s.StartWorker(t)
	awaitCount(t, db, 1, told, 50)

	stray(51)
	to.Away()
	poll(t, worker)
	worker.AwaitSaid(t, "trying again until it succeeds")
	to.Back()
	awaitCount(t, db, 1, told, 51)
	l.LetGo(t)
	awaitCount(t, db, 1, "id = 1 AND status = 'done' AND result = 'ok'")
	l.ExpectOnce(t, 1)
}
