package sightings

import (
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Two workers of one name on one table: the second one is refused, with words that name the first, and
// touches none of its rows.
func TestASecondWorkerOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]func(*testing.T, string) (rows, harness.Settings){
		"mysql": func(t *testing.T, command string) (rows, harness.Settings) {
			db := harness.NewDatabase(t)
			return db, db.Worker(t, "worker", command, map[string]int{"a": 1})
		},
		"sqlite": func(t *testing.T, command string) (rows, harness.Settings) {
			f := newFile(t)
			return f, f.worker(t, command, map[string]int{"a": 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLauncher(t, 1)
			r, s := table(t, l.command)
			s = s.With(harness.Settings{"name": "twin"})
			first := s.StartWorker(t)
			insert(t, r, "a", "waiting", 1)
			poll(t, first)
			l.awaitStarts(t, 1)
			awaitCount(t, r, 1, "status = 'running'")
			s = s.With(harness.Settings{"port": harness.FreePort(t), "journal_dir": t.TempDir() + "/journal"})
			second := harness.Launch(t, "jobd", s.Write(t), s.Addr())
			harness.Until(t, func() string {
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
			to := harness.NewLink(t, db.Addr)
			s := db.Worker(t, "worker", l.command, map[string]int{"a": 1}).With(to.ToDatabase())
			worker := s.StartWorker(t)
			for i := range int64(5) {
				insert(t, db, "a", "waiting", i+1)
				poll(t, worker)
				awaitCount(t, db, int(i)+1, "status = 'done'")
				if lingers {
					to.Linger()
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
	to := harness.NewLink(t, db.Addr)
	s := db.Worker(t, "worker", l.command, map[string]int{"a": 1}).With(to.ToDatabase())
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
	to.Away()
	poll(t, worker)
	awaitSays(t, worker, "trying again until it succeeds")
	to.Back()
	awaitCount(t, db, 1, told, 51)
	l.letGo(t)
	awaitCount(t, db, 1, "id = 1 AND status = 'done' AND result = 'ok'")
	l.expectOnce(t, 1)
}
