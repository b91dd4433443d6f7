package sightings

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// store is one of the two kinds of table, with what refuses updates of some rows in it.
type store struct {
	name   string
	make   func(t *testing.T) (rows, func(command string, targets map[string]int) harness.Settings)
	refuse func(when string, errno int) string // a trigger's statement
	errnos []int
}

var stores = []store{{
	name: "mysql",
	make: func(t *testing.T) (rows, func(string, map[string]int) harness.Settings) {
		db := harness.NewDatabase(t, nullable)
		return db, func(command string, targets map[string]int) harness.Settings {
			return quiet(db.Worker(t, "worker", command, targets))
		}
	},
	refuse: func(when string, errno int) string {
		return fmt.Sprintf("CREATE TRIGGER refuses BEFORE UPDATE ON jobs FOR EACH ROW IF %s THEN "+
			"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'not this one'; END IF", when, errno)
	},
	errnos: []int{1146, 1213, 1205, 1644},
}, {
	name: "sqlite",
	make: func(t *testing.T) (rows, func(string, map[string]int) harness.Settings) {
		f := newFile(t)
		return f, func(command string, targets map[string]int) harness.Settings { return f.worker(t, command, targets) }
	},
	refuse: func(when string, _ int) string {
		return fmt.Sprintf("CREATE TRIGGER refuses BEFORE UPDATE ON jobs WHEN %s BEGIN SELECT RAISE(ABORT, 'not this one'); END", when)
	},
	errnos: []int{0},
}}

// nullable is the jobs table where all may be NULL that some application's has as NULL.
var nullable = strings.NewReplacer(
	"`target` char(16) NOT NULL", "`target` char(16)",
	"`time_started` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_started` int(10) UNSIGNED DEFAULT 0",
	"`time_finished` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_finished` int(10) UNSIGNED DEFAULT 0",
).Replace(dbserver.JobsTable)

// A trigger refuses to have some rows claimed. The others of all targets go on; the journal does not grow
// by the rows that are refused, which are listed with the reason, and run when the trigger is gone.
func TestRowsThatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			r, settings := store.make(t)
			l := newLauncher(t)
			s := settings(l.command, map[string]int{"a": 2, "b": 2})
			r.Exec(t, store.refuse("NEW.id IN (5, 6) AND NEW.status IN ('accepted', 'running')", 1644))
			worker := s.StartWorker(t)
			insert(t, r, "a", "waiting", span(1, 20)...)
			insert(t, r, "b", "waiting", span(21, 40)...)
			poll(t, worker)
			awaitCount(t, r, 38, "status = 'done'")
			await(t, func() string { return missingAside(t, worker, "not this one", 5, 6) })
			for round := range int64(10) {
				insert(t, r, "a", "waiting", 100+round)
				poll(t, worker)
				awaitCount(t, r, 39+int(round), "status = 'done'")
			}
			triedEverMoreRarely(t, s, 5)
			triedEverMoreRarely(t, s, 6)
			r.Exec(t, "DROP TRIGGER refuses")
			awaitCount(t, r, 50, "status = 'done' AND result = 'ok'")
			await(t, func() string {
				if left := statusOf(t, worker).Aside; len(left) != 0 {
					return fmt.Sprintf("still set aside: %v", left)
				}
				return ""
			})
			l.expectOnce(t, 50)
		})
	}
}

// missingAside tells which jobs a worker does not list as set aside with the reason.
func missingAside(t *testing.T, worker *harness.Daemon, reason string, jobs ...int64) string {
	t.Helper()
	missing := map[int64]bool{}
	for _, job := range jobs {
		missing[job] = true
	}
	aside := statusOf(t, worker).Aside
	for _, row := range aside {
		if strings.Contains(row.Reason, reason) {
			delete(missing, row.Job)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("%v are not set aside because of %q: %v", maps.Collect(maps.All(missing)), reason, aside)
	}
	return ""
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

// A CHECK constraint does the same as a trigger.
func TestAConstraintThatOneRowViolates(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	db.Exec(t, "ALTER TABLE jobs ADD CONSTRAINT odd CHECK (time_created <> 5 OR status NOT IN ('accepted', 'running'))")
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2, "b": 2}))
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, 4)...)
	db.Exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (5, 'a', 5)")
	insert(t, db, "a", "waiting", span(6, 20)...)
	insert(t, db, "b", "waiting", span(21, 40)...)
	poll(t, worker)
	awaitCount(t, db, 39, "status = 'done'")
	await(t, func() string { return missingAside(t, worker, "odd", 5) })
	triedEverMoreRarely(t, s, 5)
	db.Exec(t, "ALTER TABLE jobs DROP CONSTRAINT odd")
	awaitCount(t, db, 40, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 40)
}

// A client asks for a manual job that the table refuses to have claimed, beside one that it takes: each has
// its own answer.
func TestAManualJobThatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			r, settings := store.make(t)
			l := newLauncher(t)
			worker := settings(l.command, map[string]int{"a": 2}).StartWorker(t)
			r.Exec(t, store.refuse("NEW.id = 1 AND NEW.status IN ('accepted', 'running')", 1644))
			insert(t, r, "a", "manual", 1, 2)
			var answer harness.Jobs
			harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": []int{1, 2}}).Decode(t, &answer)
			if answer.Jobs["2"].Result != "ok" || !strings.Contains(answer.Errors["1"], "not this one") {
				t.Errorf("run-manual answers %v %v", answer.Jobs, answer.Errors)
			}
			r.Exec(t, "DROP TRIGGER refuses")
			answer = harness.Jobs{}
			harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": []int{1}}).Decode(t, &answer)
			if answer.Jobs["1"].Result != "ok" {
				t.Errorf("when nothing refuses it any more: %v %v", answer.Jobs, answer.Errors)
			}
			l.expectOnce(t, 2)
		})
	}
}

// A trigger refuses to have some rows changed to running, or to done, with numbers that tell something
// else elsewhere: no such table, a deadlock, a lock wait. It is about these rows, and the others end.
func TestTriggersWithMisleadingNumbers(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		for _, errno := range store.errnos {
			for _, status := range []string{"running", "done"} {
				t.Run(fmt.Sprint(store.name, errno, status), func(t *testing.T) {
					t.Parallel()
					r, settings := store.make(t)
					l := newLauncher(t)
					worker := settings(l.command, map[string]int{"a": 4, "b": 2}).With(harness.Settings{"prefetch": "4"}).StartWorker(t)
					r.Exec(t, store.refuse(fmt.Sprintf("NEW.id %% 20 = 3 AND NEW.status = '%s'", status), errno))
					insert(t, r, "a", "waiting", span(1, 60)...)
					insert(t, r, "b", "waiting", span(61, 80)...)
					poll(t, worker)
					awaitCount(t, r, 76, "id % 20 <> 3 AND status = 'done' AND result = 'ok'")
					if refused := r.Count(t, "id % 20 = 3 AND status = 'done'"); refused != 0 {
						t.Errorf("%d rows are done that are refused", refused)
					}
					r.Exec(t, "DROP TRIGGER refuses")
					awaitCount(t, r, 80, "status = 'done' AND result = 'ok'")
					l.expectOnce(t, 80)
				})
			}
		}
	}
}

// Ids that are none: 0, and those beyond an int64. They stay as they are, and hold up nothing,
// also where a claim asks for one row at a time.
func TestIdsThatAreNone(t *testing.T) {
	t.Parallel()
	table := strings.Replace(dbserver.JobsTable, "`id` int(10) UNSIGNED", "`id` bigint UNSIGNED", 1)
	db, l := harness.NewDatabase(t, table), newLauncher(t)
	db.Exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (1, 'a', 1), (9223372036854775808, 'a', 1), (18446744073709551615, 'a', 1)")
	db.Exec(t, "UPDATE jobs SET id = 0 WHERE id = 1")
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1, "b": 1}), harness.Settings{"mysql_fetch_limit": "1"})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", span(1, 20)...)
	insert(t, db, "b", "waiting", span(21, 40)...)
	poll(t, worker)
	awaitCount(t, db, 40, "status = 'done' AND result = 'ok'")
	before := events(t, s, -1)
	poll(t, worker)
	insert(t, db, "b", "waiting", 41)
	poll(t, worker)
	awaitCount(t, db, 41, "status = 'done' AND result = 'ok'")
	await(t, func() string {
		if grown := events(t, s, 41); grown < 3 {
			return fmt.Sprintf("%d events of the last job", grown)
		}
		return ""
	})
	if grown := events(t, s, -1) - before; grown > 6 {
		t.Errorf("the journal grew by %d events for one job", grown)
	}
	if left := db.Count(t, "(id = 0 OR id > 9223372036854775807) AND status = 'waiting' AND sig IS NULL"); left != 3 {
		t.Errorf("%d of the three odd rows are as they were", left)
	}
	l.expectOnce(t, 41)
}
