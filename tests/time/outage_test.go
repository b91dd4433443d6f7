package time

import (
	"fmt"
	"testing"

	"jobd/journal"
	"jobd/tests/harness"
)

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
			way := harness.NewLink(t, s.Addr)
			settings := s.worker("w1", map[string]int{"a": 4}, way.ToDatabase(), harness.Settings{"missed": missed},
				harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "2s"}))
			at := s.now()
			s.insert(timed{id: 1, runAt: at, schedule: fmt.Sprintf("every %ds", period)}, timed{id: 2, runAt: at + 4}, timed{id: 3, runAt: at})
			settings.StartWorker(t)
			s.await(3, "delayed for its second attempt", func(r timed) bool { return r.status == "delayed" && r.attempts == 1 })
			row := s.await(1, "delayed behind a run", func(r timed) bool { return r.status == "delayed" && r.result == "ok" })
			way.Away()
			if row = s.row(1); row.status != "delayed" {
				t.Skip("it was claimed in the moment in which the link was cut")
			}
			s.awaitTime(max(row.plannedAt+2*period+1, at+6))
			before := len(s.oracle.starts(t, 1))
			back := s.now()
			way.Back()
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
