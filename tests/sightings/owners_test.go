package sightings

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

// oneMark finds two names of workers whose marks were one as long as a mark was four letters of a hash
// of the name.
func oneMark(t *testing.T) (string, string) {
	t.Helper()
	known := map[[4]byte]string{}
	for i := range 100_000 {
		name := fmt.Sprintf("node-%d", i)
		sum := sha256.Sum256([]byte(name))
		mark := [4]byte(sum[:4])
		for i := range mark {
			mark[i] %= 32
		}
		if other, taken := known[mark]; taken {
			return other, name
		}
		known[mark] = name
	}
	t.Fatal("no two names have the same hash")
	return "", ""
}

// A fresh worker leaves alone what a living one runs, though a hash of their names is the same.
func TestTwoWorkersWhoseNamesHashAlike(t *testing.T) {
	t.Parallel()
	one, other := oneMark(t)
	for _, crash := range []string{"fail", "requeue"} {
		t.Run(crash, func(t *testing.T) {
			t.Parallel()
			db, l := harness.NewDatabase(t), newLauncher(t, 1, 2, 3)
			onCrash := harness.Settings{"on_crash": crash}
			living := quiet(db.Worker(t, one, l.command, map[string]int{"a": 3}), onCrash).StartWorker(t)
			insert(t, db, "a", "waiting", span(1, 5)...)
			poll(t, living)
			l.awaitStarts(t, 3)
			awaitCount(t, db, 2, "status = 'accepted'")
			fresh := quiet(db.Worker(t, other, l.command, map[string]int{"a": 3, "b": 1}), onCrash).StartWorker(t)
			insert(t, db, "b", "waiting", 10)
			poll(t, fresh)
			awaitCount(t, db, 1, "id = 10 AND status = 'done'")
			if still := db.Count(t, "id <= 3 AND status = 'running'"); still != 3 {
				t.Errorf("%d of the living worker's jobs are running, of 3", still)
			}
			l.letGo(t)
			awaitCount(t, db, 6, "status = 'done' AND result = 'ok'")
			l.expectOnce(t, 6)
		})
	}
}

// Two workers of one name on one table: the second one is refused, with words that name the first, and
// touches none of its rows.
func TestASecondWorkerOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			r, settings := store.make(t)
			l := newLauncher(t, 1)
			s := settings(l.command, map[string]int{"a": 1}).With(harness.Settings{"name": "twin"})
			first := s.StartWorker(t)
			insert(t, r, "a", "waiting", 1)
			poll(t, first)
			l.awaitStarts(t, 1)
			awaitCount(t, r, 1, "status = 'running'")
			s = s.With(harness.Settings{"port": harness.FreePort(t), "journal_dir": t.TempDir() + "/journal"})
			second := harness.Launch(t, "jobd", s.Write(t), s.Addr())
			await(t, func() string {
				if second.Running() {
					return "the second one runs"
				}
				return ""
			})
			if code := second.ExitCode(t); code != 1 || !strings.Contains(second.Output(), "twin") {
				t.Errorf("exit code %d: %s", code, second.Output())
			}
			l.letGo(t)
			awaitCount(t, r, 1, "status = 'done' AND result = 'ok'")
			l.expectOnce(t, 1)
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
			db, l := harness.NewDatabase(t), newLauncher(t)
			to := newWay(t, db.Addr)
			s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}), to.toDatabase())
			worker := s.StartWorker(t)
			for i := range int64(5) {
				insert(t, db, "a", "waiting", i+1)
				poll(t, worker)
				awaitCount(t, db, int(i)+1, "status = 'done'")
				if lingers {
					to.linger()
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
	db, l := harness.NewDatabase(t), newLauncher(t, 1)
	to := newWay(t, db.Addr)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}), to.toDatabase())
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	l.awaitStarts(t, 1)
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
	to.refuse(true)
	to.cut()
	poll(t, worker)
	awaitSays(t, worker, "trying again until it succeeds")
	to.refuse(false)
	awaitCount(t, db, 1, told, 51)
	l.letGo(t)
	awaitCount(t, db, 1, "id = 1 AND status = 'done' AND result = 'ok'")
	l.expectOnce(t, 1)
}

// A living worker loses its links, and the server does not miss its end of them: its name is its own all the same.
func TestAWorkerThatLostItsLinksKeepsItsName(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	to := newWay(t, db.Addr)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}), to.toDatabase()).StartWorker(t)
	for i := range 3 {
		insert(t, db, "a", "waiting", int64(i)+1)
		begun := time.Now()
		poll(t, worker)
		awaitCount(t, db, i+1, "status = 'done'")
		// Some moments; the rest is for a busy machine. The server misses its end after 30 s.
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("it worked after %s", took)
		}
		to.forsake()
	}
	l.expectOnce(t, 3)
}
