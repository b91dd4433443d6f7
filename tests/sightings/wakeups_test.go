package sightings

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// lockRows is somebody's open transaction that holds rows; unlock ends it, and changes nothing.
func lockRows(t *testing.T, db *harness.Database, ids ...int64) (unlock func()) {
	t.Helper()
	tx := must.Get(db.Admin.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted}))(t)
	for _, id := range ids {
		var found int64
		if err := tx.QueryRow("SELECT id FROM jobs WHERE id = ? FOR UPDATE", id).Scan(&found); err != nil {
			t.Fatalf("lock row %d: %v", id, err)
		}
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // for tests that fail before unlock
	return func() {
		t.Helper()
		if err := tx.Rollback(); err != nil {
			t.Fatalf("the rows were not held until now: %v", err)
		}
	}
}

// An application's SELECT … FOR UPDATE hides rows from a claim, which finds fewer than it asked for. When
// they are free, nobody says so.
func TestRowsThatWereLockedWhenTheClaimLooked(t *testing.T) {
	t.Parallel()
	for name, looked := range map[string]string{"some of the target": "a", "all of the target": "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, l := harness.NewDatabase(t), newLauncher(t)
			insert(t, db, "a", "waiting", span(1, 20)...)
			unlock := lockRows(t, db, span(1, 20)...)
			worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 4, "b": 4})).StartWorker(t)
			insert(t, db, looked, "waiting", 100)
			poll(t, worker, "a", "b")
			awaitCount(t, db, 1, "id = 100 AND status = 'done'") // so the claim has looked
			unlock()
			awaitCount(t, db, 21, "status = 'done'")
			l.expectOnce(t, 21)
		})
	}
}

// A worker is killed eight times in the middle of a claim, and the server does not notice yet: the
// connections of the killed hold rows while the next worker looks.
func TestKilledEightTimes(t *testing.T) {
	t.Parallel()
	jobs := size(160, 400) // which take less than the 30 s after which the server misses the killed by itself
	db, l := harness.NewDatabase(t), newLauncher(t).slow(t)
	to := newWay(t, db.Addr)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 4}), to.toDatabase())
	insert(t, db, "a", "waiting", span(1, int64(jobs))...)
	for i := range 8 {
		worker := s.StartWorker(t)
		poll(t, worker, "a")
		caught := to.freezeBehind([]string{"FOR UPDATE", "; COMMIT"}[i%2])
		happened(t, "claim", caught)
		worker.Kill(t)
		to.thaw()
	}
	await(t, func() string {
		if free := db.Count(t, "status = 'waiting' FOR UPDATE SKIP LOCKED"); free == db.Count(t, "status = 'waiting'") {
			return "the killed hold no rows"
		}
		return ""
	})
	worker := s.StartWorker(t)
	poll(t, worker, "a")
	awaitCount(t, db, 0, "status <> 'done' FOR UPDATE SKIP LOCKED") // so it has all that it can get
	if held := db.Count(t, "status <> 'done'"); held == 0 {
		t.Log("it was so slow that the server has missed the killed before the rest was done")
	}
	to.release()
	awaitCount(t, db, 0, "status IN ('waiting', 'accepted', 'running')")
	if lost := db.Count(t, "status <> 'done' OR result <> 'ok'"); lost != 0 {
		t.Errorf("%d jobs did not end well, though no runner was killed", lost)
	}
	l.expectOnce(t, jobs)
}

// The application pokes in the middle of its transaction. The claim finds nothing; the COMMIT that
// follows wakes nobody.
func TestPokeBeforeTheCommit(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	master := harness.StartMaster(t)
	quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 1}), harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	tx := must.Get(db.Admin.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	must.Get(tx.Exec("INSERT INTO jobs (id, target, time_created) VALUES (1, 'a', UNIX_TIMESTAMP())"))(t)
	insert(t, db, "b", "waiting", 2)
	poke(t, master, "a", "b")
	awaitCount(t, db, 1, "id = 2 AND status = 'done'") // so the worker has looked
	must.Do(t, tx.Commit())
	awaitCount(t, db, 2, "status = 'done'")
	l.expectOnce(t, 2)
}

// A row that is set back by hand while its job runs here is not claimed, as the worker still holds
// it. It must not take the place of those behind it where a claim asks for one row only.
func TestRowsBehindOneThatIsHeldHere(t *testing.T) {
	t.Parallel()
	for name, narrow := range map[string]harness.Settings{
		"prefetch = 0":          {"prefetch": "0"},
		"mysql_fetch_limit = 1": {"mysql_fetch_limit": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, l := harness.NewDatabase(t), newLauncher(t, 1)
			worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2}), narrow).StartWorker(t)
			insert(t, db, "a", "waiting", 1)
			poll(t, worker, "a")
			l.awaitStarts(t, 1)
			db.Exec(t, "UPDATE jobs SET status = 'waiting', sig = NULL, time_started = 0 WHERE id = 1")
			insert(t, db, "a", "waiting", span(2, 11)...)
			poll(t, worker, "a")
			awaitCount(t, db, 10, "id > 1 AND status = 'done'")
			l.expectOnce(t, 11)
			l.letGo(t)
			awaitCount(t, db, 11, "status = 'done'") // it was set back: it runs once more, afterwards
		})
	}
}

// After each start of a worker all that had happened before is done, whatever became of the links
// meanwhile: the application's poke failed with the master.
func TestRowInsertedWhileTheMasterWasDown(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	port := harness.Settings{"port": harness.FreePort(t)}
	master := harness.StartMaster(t, port)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}), harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	insert(t, db, "a", "waiting", 1)
	poke(t, master, "a")
	awaitCount(t, db, 1, "status = 'done'") // what its start had it do is over
	master.Kill(t)
	awaitSays(t, worker, "no connection to the master")
	insert(t, db, "a", "waiting", 2)
	master = harness.StartMaster(t, port)
	harness.AwaitWorkers(t, master, "", 1)
	awaitCount(t, db, 2, "status = 'done'")
}

// After a master's restart a poke is remembered until workers register. It is for all of them, not
// for the first one, which has one slot only.
func TestRememberedPokeReachesAllThatRegister(t *testing.T) {
	t.Parallel()
	const workers = 3
	db, l := harness.NewDatabase(t), newLauncher(t, everyJob)
	port := harness.FreePort(t)
	before := harness.StartMaster(t, harness.Settings{"port": port})
	var all []*harness.Daemon
	for i := range workers {
		all = append(all, quiet(db.Worker(t, fmt.Sprintf("worker-%d", i), l.command, map[string]int{"a": 1}),
			harness.MasterOf(before), harness.Settings{"prefetch": "0"}).StartWorker(t))
	}
	harness.AwaitWorkers(t, before, "", workers)
	before.Kill(t)
	for _, worker := range all {
		awaitSays(t, worker, "no connection to the master")
	}
	insert(t, db, "a", "waiting", span(1, 30)...)
	master := harness.StartMaster(t, harness.Settings{"port": port})
	poke(t, master, "a")
	awaitCount(t, db, workers, "status = 'running'")
	l.letGo(t)
	awaitCount(t, db, 30, "status = 'done'")
	l.expectOnce(t, 30)
}

// moment is how long something stays as it is, for the other side to be in the middle of it.
const moment = 3 * time.Second
