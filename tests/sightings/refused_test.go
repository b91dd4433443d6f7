package sightings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/tests/harness"
)

// missingAside tells what is missing where a worker does not list a row as set aside with the reason.
func missingAside(t *testing.T, worker *harness.Daemon, reason string, job int64) string {
	t.Helper()
	var status struct {
		Aside []struct {
			Job    int64
			Reason string
		}
	}
	client := harness.Dial(t, worker.Addr)
	defer client.Close()
	client.Ask(t, "status", nil).Decode(t, &status)
	for _, row := range status.Aside {
		if row.Job == job && strings.Contains(row.Reason, reason) {
			return ""
		}
	}
	return fmt.Sprintf("%d is not set aside because of %q: %v", job, reason, status.Aside)
}

// triedEverMoreRarely checks that a row that can't be claimed is tried once with others, once alone, and
// then after 1 s, 2 s, 4 s and so on, whatever is polled meanwhile; and that the journal has three events of
// each try at most.
func triedEverMoreRarely(t *testing.T, s harness.Settings, job int64) {
	t.Helper()
	tries := timesOf(t, s, job, journal.KindAccepted)
	for i := 2; i < len(tries); i++ {
		if gap, least := tries[i].Sub(tries[i-1]), 500*time.Millisecond<<(i-2); gap < least {
			t.Errorf("try %d of row %d came %s after the one before, not %s: %v", i+1, job, gap, least, tries)
		}
	}
	if all := len(timesOf(t, s, job)); all > 3*len(tries)+3 { // a try may be under way
		t.Errorf("%d events of %d tries of row %d", all, len(tries), job)
	}
}

// A constraint refuses to have a row claimed. The others of all targets go on; the journal does not grow by the row
// that is refused, which is listed with the reason, and runs when the constraint is gone.
func TestAConstraintThatOneRowViolates(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	db.Exec(t, "ALTER TABLE jobs ADD CONSTRAINT odd CHECK (time_created <> 5 OR status NOT IN ('accepted', 'running'))")
	s := db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 2})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, 4)...)
	db.Exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (5, 'a', 5)")
	insert(t, db, "a", "waiting", span(6, 20)...)
	insert(t, db, "b", "waiting", span(21, 40)...)
	poll(t, worker)
	awaitCount(t, db, 39, "status = 'done'")
	harness.Until(t, func() string { return missingAside(t, worker, "odd", 5) })
	triedEverMoreRarely(t, s, 5)
	db.Exec(t, "ALTER TABLE jobs DROP CONSTRAINT odd")
	awaitCount(t, db, 40, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 40)
}
