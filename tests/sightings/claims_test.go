package sightings

import (
	"fmt"
	"testing"
	"time"

	"jobd/journal"
	"jobd/tests/harness"
)

// Rows are set back by hand while their jobs run, and the database is away when these end. When it is
// there again, what becomes of the old claims must not end the new ones.
func TestOldClaimsDoNotEndNewOnes(t *testing.T) {
	t.Parallel()
	const jobs = 20
	db, l := harness.NewDatabase(t), newLauncher(t, everyJob)
	to := newWay(t, db.Addr)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": jobs}), to.toDatabase())
	worker := s.StartWorker(t)
	for round := range size(5, 50) {
		db.Exec(t, "DELETE FROM jobs")
		first := int64(1 + jobs*round)
		insert(t, db, "a", "waiting", span(first, first+jobs-1)...)
		poll(t, worker)
		l.awaitStarts(t, jobs*(round+1))
		awaitCount(t, db, jobs, "status = 'running'")
		db.Exec(t, "UPDATE jobs SET status = 'waiting', sig = NULL, time_started = 0")
		to.refuse(true)
		to.cut()
		l.letGo(t, span(first, first+jobs-1)...)
		await(t, func() string {
			if done := events(t, s, -1, journal.KindDone); done < jobs*(2*round+1) {
				return fmt.Sprintf("%d ends are journalled", done)
			}
			return ""
		})
		to.refuse(false)
		awaitCount(t, db, jobs, "status = 'done' AND result = 'ok'")
	}
	for id, times := range l.starts(t) {
		if times != 2 {
			t.Errorf("job %s was started %d times, want twice: it was set back once", id, times)
		}
	}
}

// A row is set back by hand while its job runs, and runs a second time before the mirror has told the table
// how the first run ended. What becomes of the old claim must not end the new one.
func TestAnOldClaimDoesNotEndANewOne(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newTurnstile(t)
	to := newWay(t, db.Addr)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2}), to.toDatabase()).StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	l.awaitStarts(t, 1)
	awaitCount(t, db, 1, "status = 'running'")
	db.Exec(t, "UPDATE jobs SET status = 'waiting', sig = NULL, time_started = 0")
	caught := to.holdLink("out 1")
	l.letGo(t, 1)
	happened(t, "update by the mirror", caught)
	poll(t, worker)
	for waited := time.Now(); l.starts(t)["1"] < 2 && time.Since(waited) < moment; {
		<-time.After(20 * time.Millisecond) // it may also wait for the mirror
	}
	to.thaw()
	await(t, func() string {
		if times := l.starts(t)["1"]; times < 2 {
			return "the row that was set back does not run"
		}
		return ""
	})
	l.letGo(t, 1)
	awaitCount(t, db, 1, "status = 'done' AND result = 'ok'")
	if starts := l.starts(t)["1"]; starts != 2 {
		t.Errorf("it was started %d times, want twice: it was set back once", starts)
	}
}
