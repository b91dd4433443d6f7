package torture

import (
	"fmt"
	"os"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
		if err := dbserver.CloseGroup(group); err != nil {
			t.Error(err)
		}
	})
	router := harness.NewLink(t, group[0].Addr())
	targets := map[string]int{"a": 4, "b": 1}
	s := newSiteOn(t, group[0], shortJob, targets, polling, router.ToDatabase())
	other := s.worker(t, "other").With(harness.Targets(targets), polling, router.ToDatabase())
	s.start(t)
	other.StartWorker(t)
	primary, next, kills := 0, 1, size(2, 5)
	var elected, on []time.Duration
	for range kills {
		before := s.jobs
		s.insert(t, size(300, 1000), "a")
		awaitProgress(t, s, before+size(100, 300))
		begun := time.Now()
		must.Do(t, group[primary].Kill())
		router.Lead(group[next].Addr()) // where it is read-only until the group has noticed
		must.Do(t, group[next].AwaitPrimary(t.Context()))
		elected = append(elected, time.Since(begun))
		s.moveTo(t, group[next])
		s.insert(t, 1, "b") // a target for which nothing was claimed before
		harness.Until(t, func() string {
			if s.Count(t, "target = 'b' AND status <> 'done'") > 0 {
				return "the new job was not run"
			}
			return ""
		})
		on = append(on, time.Since(begun))
		must.Do(t, group[primary].Restart(t.Context()))
		must.Do(t, group[primary].Join(t.Context()))
		primary, next = next, s.heir(t, group, next)
	}
	s.awaitDone(t)
	journals := []string{s.settings["journal_dir"], other["journal_dir"]}
	suite.matrix.add(line{
		fault: "6 primary of a MySQL group killed", runs: kills, tally: s.known(t, journals...),
		note: fmt.Sprintf("another one is elected after %s; new ones are claimed %s after", spread(elected), spread(on)),
	})
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

// spread is the least and the most of some times.
func spread(times []time.Duration) string {
	least, most := times[0], times[0]
	for _, each := range times {
		least, most = min(least, each), max(most, each)
	}
	return fmt.Sprintf("%s to %s", least.Round(100*time.Millisecond), most.Round(100*time.Millisecond))
}
