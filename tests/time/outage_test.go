package time

import (
	"fmt"
	"strconv"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// way is the way of a worker to the table, which a test can break.
type way struct{ *linkproxy.Proxy }

func (s *site) newWay() way {
	s.t.Helper()
	proxy := must.Get(linkproxy.Start(s.Addr))(s.t)
	s.t.Cleanup(func() { proxy.Close() })
	return way{proxy}
}

// settings lead a worker over the way.
func (w way) settings() harness.Settings {
	return harness.Settings{"mysql_port": strconv.Itoa(w.Port())}
}

func (w way) away() {
	w.Refuse(true)
	w.Cut()
}

func (w way) back() { w.Refuse(false) }

// awaitTime waits until the server's clock says a time.
func (s *site) awaitTime(at int64) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if now := s.now(); now < at {
			return fmt.Sprintf("it is %d, not %d", now, at)
		}
		return ""
	})
}

// The database is away over planned times. With missed = once the run that was missed is made up for,
// once, and knows for when it was planned; with skip it waits for the next time. Nothing is run for the others that
// have passed. What does not recur, and what is tried again, is never missed.
func TestDatabaseAwayOverPlannedTimes(t *testing.T) {
	t.Parallel()
	const period = 2
	for _, missed := range []string{"once", "skip"} {
		t.Run(missed, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, `[ $1 != 3 ]`)
			way := s.newWay()
			settings := s.worker("w1", map[string]int{"a": 4}, way.settings(), harness.Settings{"missed": missed},
				harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "2s"}))
			at := s.now()
			s.insert(timed{id: 1, runAt: at, schedule: fmt.Sprintf("every %ds", period)}, timed{id: 2, runAt: at + 4}, timed{id: 3, runAt: at})
			settings.StartWorker(t)
			s.await(3, "delayed for its second attempt", func(r timed) bool { return r.status == "delayed" && r.attempts == 1 })
			row := s.await(1, "delayed behind a run", func(r timed) bool { return r.status == "delayed" && r.result == "ok" })
			way.away()
			if row = s.row(1); row.status != "delayed" {
				t.Skip("it was claimed in the moment in which the link was cut")
			}
			s.awaitTime(max(row.plannedAt+2*period+1, at+6))
			before := len(s.oracle.starts(t, 1))
			back := s.now()
			way.back()
			starts := s.oracle.await(t, 1, before+3)
			if first := starts[before]; missed == "once" && first.planned != row.plannedAt || missed == "skip" && first.planned <= back {
				t.Errorf("away until %d over what was planned for %d, the first start is %s", back, row.plannedAt, first)
			}
			if second := starts[before+1]; second.planned <= back {
				t.Errorf("away until %d, the second start is %s, a backfill", back, second)
			}
			plans := events(t, settings, journal.KindPlanned)
			if (missed == "skip") != (len(plans) > 0) {
				t.Errorf("%d rows were planned anew in the journal: %v", len(plans), plans)
			}
			for _, e := range plans { // on a busy machine a run may be missed that came later
				if late := e.Time.Unix() - e.Payload.(journal.Planned).From.PlannedAt; late <= period {
					t.Errorf("planned anew, %d s late: %v", late, e)
				}
			}
			s.awaitStatus(2, "done")
			if row := s.awaitStatus(3, "done"); row.attempts != 2 {
				t.Errorf("%s: want both attempts", row)
			}
			s.expectSchedule(1)
			s.expectNotBefore()
			verifyJournal(t, settings)
		})
	}
}

// A run that ends while the database is away plans its next one from its end: times that pass during a
// run, and while its row can't be updated, are dropped or missed once, never made up for one by one.
func TestARunEndsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, `until [ -e $dir/go ]; do sleep 0.2; done`)
	way := s.newWay()
	settings := s.worker("w1", map[string]int{"a": 1}, way.settings())
	s.insert(timed{id: 1, runAt: s.now(), schedule: "every 1s"})
	settings.StartWorker(t)
	s.awaitStatus(1, "running")
	way.away()
	at := s.now()
	s.oracle.touch(t, "go", "")
	s.awaitTime(at + 4)
	if row := s.row(1); row.status != "running" {
		t.Fatalf("the row was reached over a link that is cut: %s", row)
	}
	back := s.now()
	way.back()
	starts := s.oracle.await(t, 1, 4)
	for _, begun := range starts[2:] {
		if begun.planned < back {
			t.Errorf("away until %d: %s is a backfill", back, begun)
		}
	}
	s.expectSchedule(1)
}

// The server itself is away, and comes back.
func TestServerAwayOverAPlannedTime(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s := newSiteOn(t, server, "")
	settings := s.worker("w1", map[string]int{"a": 1})
	due := s.now() + 3
	s.insert(timed{id: 1, runAt: due}, timed{id: 2, runAt: due, schedule: "every 1h"})
	worker := settings.StartWorker(t)
	idle(t, worker)
	must.Do(t, server.Kill())
	awaitMachine(t, due+1)
	must.Do(t, server.Restart(t.Context()))
	s.awaitStatus(1, "done")
	row := s.await(2, "delayed behind its run", func(r timed) bool { return r.result == "ok" })
	if row.plannedAt != due+3600 || row.runAt != due+3600 {
		t.Errorf("%s: want the next run an hour after %d", row, due)
	}
	s.expectOnce(2)
}

// Somebody else holds the row while its run ends, for longer than until its next planned time: as soon
// as it is let go the row comes back, and its schedule goes on.
func TestARowIsLockedWhileItsRunEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, `until [ -e $dir/go ]; do sleep 0.2; done`)
	settings := s.worker("w1", map[string]int{"a": 1})
	s.insert(timed{id: 1, runAt: s.now(), schedule: "every 1s"})
	settings.StartWorker(t)
	s.oracle.await(t, 1, 1)
	s.awaitStatus(1, "running")
	tx := must.Get(s.Admin.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback() // at the latest
	must.Get(tx.ExecContext(t.Context(), "SELECT id FROM jobs WHERE id = 1 FOR UPDATE"))(t)
	s.oracle.touch(t, "go", "")
	at := s.now()
	s.awaitTime(at + 4)
	must.Do(t, tx.Rollback())
	s.oracle.await(t, 1, 4)
	s.expectSchedule(1)
}
