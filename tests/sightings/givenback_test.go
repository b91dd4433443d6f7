package sightings

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// hoard starts a worker that runs job 1 of target a and has claimed jobs 2 to 4 ahead, and beside it
// one that is idle, both registered with a master.
func hoard(t *testing.T) (db *harness.Database, l launcher, full *harness.Daemon) {
	t.Helper()
	db, l = harness.NewDatabase(t), newLauncher(t, 1)
	master := harness.StartMaster(t)
	full = quiet(db.Worker(t, "full", l.command, map[string]int{"a": 1}), harness.MasterOf(master),
		harness.Settings{"prefetch": "3"}).StartWorker(t)
	insert(t, db, "a", "waiting", span(1, 4)...)
	poll(t, full, "a")
	awaitCount(t, db, 3, "status = 'accepted'")
	l.awaitStarts(t, 1)
	idle := quiet(db.Worker(t, "idle", l.command, map[string]int{"a": 1}), harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 2)
	insert(t, db, "a", "waiting", 100)
	poll(t, idle, "a")
	awaitCount(t, db, 1, "id = 100 AND status = 'done'") // what its start had it do is over
	return db, l, full
}

// What a stopping worker gives back, an idle one of the same target runs, while the first still waits for
// the job that runs.
func TestRowsGivenBackByAStoppingWorker(t *testing.T) {
	t.Parallel()
	db, l, full := hoard(t)
	full.Signal(t, syscall.SIGTERM)
	awaitCount(t, db, 4, "status = 'done'")
	l.letGo(t)
	if code := full.ExitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	awaitCount(t, db, 5, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 5)
}

// A paused target keeps nothing that has not started: others run it, and the operator who waits for
// LENGTH 0 gets there.
func TestRowsGivenBackByAPausedTarget(t *testing.T) {
	t.Parallel()
	db, l, full := hoard(t)
	ask(t, full, "pause", map[string]any{"targets": []string{"a"}})
	awaitCount(t, db, 4, "status = 'done'")
	l.letGo(t)
	await(t, func() string {
		if length := statusOf(t, full).Targets["a"].Length; length != 0 {
			return fmt.Sprintf("LENGTH is %d", length)
		}
		return ""
	})
	awaitCount(t, db, 5, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 5)
}

// The database is away while a worker stops, so that what it gives back waits in its journal. At the next
// start the claim must not be faster than the mirror, or must look again.
func TestRowsGivenBackWhileTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	for try := range size(4, 20) {
		t.Run(fmt.Sprint(try), func(t *testing.T) {
			t.Parallel()
			db, l := harness.NewDatabase(t), newLauncher(t, 1)
			to := newWay(t, db.Addr)
			s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}),
				to.toDatabase(), harness.Settings{"prefetch": "30"})
			worker := s.StartWorker(t)
			insert(t, db, "a", "waiting", span(1, 31)...)
			poll(t, worker, "a")
			awaitCount(t, db, 30, "status = 'accepted'")
			l.awaitStarts(t, 1)
			to.refuse(true)
			to.cut()
			worker.Signal(t, syscall.SIGTERM)
			l.letGo(t)
			worker.ExitCode(t)
			if left := db.Count(t, "status = 'accepted'"); left != 30 {
				t.Fatalf("%d rows are accepted; a database that is away can't know that they were given back", left)
			}
			to.refuse(false)
			s.StartWorker(t)
			awaitCount(t, db, 31, "status = 'done' AND result = 'ok'")
			l.expectOnce(t, 31)
		})
	}
}

// The database stands still in the middle of a claim: when it has got the COMMIT, or has locked the rows. What
// was answered to pause holds: nothing starts afterwards, also when the claim is won at last.
func TestNothingStartsAfterPauseWasAnswered(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"FOR UPDATE", "; COMMIT"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			pauseWhileFrozen(t, last)
		})
	}
}

func pauseWhileFrozen(t *testing.T, last string) {
	db, l := harness.NewDatabase(t), newLauncher(t)
	to := newWay(t, db.Addr)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 1}), to.toDatabase()).StartWorker(t)
	insert(t, db, "b", "waiting", 100)
	poll(t, worker, "b")
	awaitCount(t, db, 1, "id = 100 AND status = 'done'")
	insert(t, db, "a", "waiting", span(1, 6)...)
	caught := to.freezeBehind(last)
	poll(t, worker, "a")
	happened(t, last+" of a claim", caught)
	awaitCount(t, db, 0, "id = 1 AND status = 'waiting' FOR UPDATE SKIP LOCKED") // the server has done it
	thaw := time.AfterFunc(moment, to.thaw)                                      // also for a pause that waits for it
	ask(t, worker, "pause", map[string]any{"targets": []string{"a"}})
	before := len(l.starts(t))
	thaw.Stop()
	<-time.After(moment) // the database stays away for that long
	to.thaw()
	insert(t, db, "b", "waiting", 101)
	poll(t, worker, "b")
	awaitCount(t, db, 1, "id = 101 AND status = 'done'")
	awaitCount(t, db, 6-(before-1), "target = 'a' AND status = 'waiting'")
	if after := len(l.starts(t)); after != before+1 {
		t.Errorf("%d jobs were started before pause was answered, and %d after it", before, after-before-1)
	}
	ask(t, worker, "continue", map[string]any{"targets": []string{"a"}})
	awaitCount(t, db, 8, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 8)
}
