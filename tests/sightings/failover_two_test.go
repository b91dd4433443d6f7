package sightings

import (
	"fmt"
	"testing"

	"jobd/store/storetest/must"
)

// Two workers of one target meet the promoted replica one after the other. The one that was there first must not claim rows that
// the other has run and not mended yet.
func TestFailoverOfTwoWorkers(t *testing.T) {
	t.Parallel()
	jobs := int64(300)
	primary, replica, db, after := follow(t)
	l := newLauncher(t).slow(t)
	to := newWay(t, primary.Addr())
	s1 := quiet(db.Worker(t, "one", l.command, map[string]int{"a": 4}), to.toDatabase())
	s2 := quiet(db.Worker(t, "two", l.command, map[string]int{"a": 4}), to.toDatabase())
	w1, w2 := s1.StartWorker(t), s2.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, jobs)...)
	poll(t, w1)
	poll(t, w2)
	await(t, func() string { return atLeast(t, db, 40, "status = 'done'") })
	await(t, func() string {
		var n int
		if err := after.Admin.QueryRow("SELECT COUNT(*) FROM jobs WHERE status = 'done'").Scan(&n); err != nil || n < 20 {
			return fmt.Sprintf("the replica has %d done rows: %v", n, err)
		}
		return ""
	})
	must.Do(t, replica.StopFollowing(t.Context()))
	behind := after.Count(t, "status = 'done'")
	await(t, func() string { return atLeast(t, db, behind+80, "target = 'a' AND status = 'done'") })
	must.Do(t, primary.Kill())
	must.Do(t, replica.Promote(t.Context()))
	to.lead(replica.Addr())
	awaitCount(t, after, int(jobs), "status = 'done'")
	l.expectOnce(t, int(jobs))
}
