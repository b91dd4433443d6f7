package torture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// shortJob lasts long enough that there is always one that is struck in the middle.
const shortJob = `sleep 0.03`

// A job that kills its worker, and the runner with it, does not do so for ever.
func TestAJobThatKillsItsWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t, `while [ ! -s $dir/worker ]; do sleep 0.01; done; kill -9 $(cat $dir/worker) $PPID; sleep 1`)
	settings := s.worker("w1", map[string]int{"a": 1}, harness.Settings{"on_crash": "requeue"})
	config := settings.Write(t)
	s.insertWaiting(1, "a")
	const starts = 3
	for range starts {
		s.writeWorker(t, nil)
		worker := harness.Launch(t, "jobd", config, settings.Addr()) // it looks when it starts
		s.writeWorker(t, fmt.Append(nil, worker.Pid))                // from here on it may be gone
		worker.ExitCode(t)
	}
	settings.StartWorker(t)
	row := s.awaitStatus(1, "done")
	check.Contains(t, row.stderr, "attempt 3 of 3", "the row does not say …: %s", row)
	check.Equal(t, len(s.oracle.Starts(t)), starts, "it was started … times")
	s.audit(1, settings)
}

// writeWorker writes the file in which a job finds its worker's process id.
func (s *site) writeWorker(t *testing.T, pid []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(s.oracle.Dir, "worker"), pid, 0o600))
}

// Of a Galera pair the node that the worker uses is killed under load. One of two is no majority:
// the other node takes no statement until somebody tells it that it is the cluster now. Then the
// jobs go on there: what was committed is there, so nothing is lost, and nothing runs twice.
func TestGaleraNodeKilled(t *testing.T) {
	t.Parallel()
	pair := harness.StartPair(t)
	router := harness.NewLink(t, pair[0].Addr())
	s := newSiteOn(t, pair[0], shortJob)
	settings := s.worker("w1", map[string]int{"a": 4}, polling, router.ToDatabase())
	settings.StartWorker(t)
	s.insertWaiting(harness.Size(200, 3000), "a")
	s.awaitAll(s.jobs / 4)
	must.Do(t, pair[0].Kill())
	router.Lead(pair[1].Addr())
	admin := pair[1].Admin()
	harness.Until(t, func() string { // SHOW is what a node without a majority answers
		var name, state string
		if err := admin.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_cluster_status'").Scan(&name, &state); err != nil || state == "Primary" {
			return fmt.Sprintf("the node that is left is %q: %v", state, err)
		}
		return ""
	})
	var refused *mysql.MySQLError
	if _, err := admin.ExecContext(t.Context(), "SELECT COUNT(*) FROM "+s.Name+".jobs"); !errors.As(err, &refused) || refused.Number != 1047 {
		t.Errorf("one node of two is asked for rows: %v, want error 1047", err)
	}
	must.Get(admin.ExecContext(t.Context(), "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"))(t)
	s.moveTo(t, pair[1])
	harness.Until(t, func() string { // it takes statements a moment later
		if _, err := s.Admin.ExecContext(t.Context(), "SELECT COUNT(*) FROM jobs"); err != nil {
			return err.Error()
		}
		return ""
	})
	s.awaitAll(s.jobs)
	s.audit(0, settings)
}

// The primary of three members of a MySQL group is killed under load, over and over; each time the
// members that are left make another one the primary, and a router leads there. The members know
// what was committed: nothing is lost, and nothing runs twice.
func TestGroupReplicationPrimaryKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") == "" {
		t.Skip("only MySQL has Group Replication: make test-group")
	}
	group := must.Get(dbserver.StartGroup(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		check.Do(t, dbserver.CloseGroup(group))
	})
	router := harness.NewLink(t, group[0].Addr())
	targets := map[string]int{"a": 4, "b": 1}
	s := newSiteOn(t, group[0], shortJob)
	one, two := s.worker("w1", targets, polling, router.ToDatabase()), s.worker("w2", targets, polling, router.ToDatabase())
	one.StartWorker(t)
	two.StartWorker(t)
	primary, next := 0, 1
	for range harness.Size(2, 5) {
		before := s.jobs
		s.insertWaiting(harness.Size(300, 1000), "a")
		s.awaitAll(before + harness.Size(100, 300))
		must.Do(t, group[primary].Kill())
		router.Lead(group[next].Addr()) // where it is read-only until the group has noticed
		must.Do(t, group[next].AwaitPrimary(t.Context()))
		s.moveTo(t, group[next])
		s.insertWaiting(1, "b") // a target for which nothing was claimed before
		s.awaitStatus(int64(s.jobs), "done")
		must.Do(t, group[primary].Restart(t.Context()))
		must.Do(t, group[primary].Join(t.Context()))
		primary, next = next, s.heir(t, group, next)
	}
	s.awaitAll(s.jobs)
	s.audit(0, one, two)
}

// heir is the member that is to follow the primary: of the two others the one with more weight.
func (s *site) heir(t *testing.T, group [3]*dbserver.Server, primary int) (next int) {
	t.Helper()
	most := -1
	for i, member := range group {
		var weight int
		must.Do(t, member.Admin().QueryRowContext(t.Context(), "SELECT @@group_replication_member_weight").Scan(&weight))
		if i != primary && weight > most {
			next, most = i, weight
		}
	}
	return next
}

// moveTo has the application use another server.
func (s *site) moveTo(t *testing.T, server *dbserver.Server) {
	t.Helper()
	db := must.Get(server.Open(s.Name))(t)
	t.Cleanup(func() { db.Close() })
	s.Admin = db
}
