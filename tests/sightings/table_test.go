package sightings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The whole table is locked for a while, as a backup or an ALTER TABLE does it, while there is work. When it is free
// all is done, without another hint.
func TestATableThatIsLockedForAWhile(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, 1)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2})).StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	l.awaitStarts(t, 1)
	insert(t, db, "a", "waiting", span(2, 21)...)
	conn := must.Get(db.Admin.Conn(t.Context()))(t)
	defer conn.Close()
	must.Get(conn.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"))(t)
	poll(t, worker)
	l.letGo(t)
	<-time.After(2 * moment) // that is how long it is locked
	must.Get(conn.ExecContext(t.Context(), "UNLOCK TABLES"))(t)
	awaitCount(t, db, 21, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 21)
}

// A claim that waits for a locked table gives no error: status and log say what is waited for, and the log that it is over.
func TestALockedTableIsTold(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2})).StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	awaitCount(t, db, 1, "status = 'done'")
	conn := must.Get(db.Admin.Conn(t.Context()))(t)
	defer conn.Close()
	insert(t, db, "a", "waiting", 2)
	must.Get(conn.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"))(t)
	poll(t, worker)
	client := harness.Dial(t, worker.Addr)
	await(t, func() string {
		var s struct {
			Targets map[string]struct{ Why string }
		}
		client.Ask(t, "status", nil).Decode(t, &s)
		if !strings.Contains(s.Targets["a"].Why, "the claim has waited for the database since") {
			return "status says of the target: " + s.Targets["a"].Why
		}
		return ""
	})
	must.Get(conn.ExecContext(t.Context(), "UNLOCK TABLES"))(t)
	awaitCount(t, db, 2, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 2)
}

// The server takes no writes for a while, as before a failover. When it does again all is done, without another
// hint.
func TestAServerThatTakesNoWritesForAWhile(t *testing.T) {
	t.Parallel()
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	db, l := harness.NewDatabaseOn(t, server), newLauncher(t, 1)
	worker := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 2})).StartWorker(t)
	insert(t, db, "a", "waiting", 1)
	poll(t, worker)
	l.awaitStarts(t, 1)
	db.Exec(t, "SET GLOBAL read_only = 1")
	insert(t, db, "a", "waiting", span(2, 21)...) // the administrator may
	poll(t, worker)
	l.letGo(t)
	<-time.After(moment) // that is how long it is so
	db.Exec(t, "SET GLOBAL read_only = 0")
	awaitCount(t, db, 21, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 21)
}

// The table is another one for a moment: swapped, or restored. Jobs that were claimed and not started were
// given up as gone meanwhile, and their rows stayed accepted for ever, whatever somebody did. They are
// looked for in a while, and go on.
func TestClaimedRowsComeBackWithTheirTable(t *testing.T) {
	t.Parallel()
	db, l := harness.NewDatabase(t), newLauncher(t, everyJob)
	s := quiet(db.Worker(t, "worker", l.command, map[string]int{"a": 1}), harness.Settings{"prefetch": "3"})
	worker := s.StartWorker(t)
	insert(t, db, "a", "waiting", 1, 2, 3, 4)
	poll(t, worker)
	l.awaitStarts(t, 1)
	awaitCount(t, db, 3, "status = 'accepted'")
	db.Exec(t, "CREATE TABLE other LIKE jobs")
	db.Exec(t, "RENAME TABLE jobs TO away, other TO jobs")
	l.letGo(t) // the first ends, and the others are to start, which have no rows
	await(t, func() string {
		if n := events(t, s, -1, journal.KindConflict); n < 4 {
			return fmt.Sprintf("%d conflicts", n)
		}
		return ""
	})
	db.Exec(t, "RENAME TABLE jobs TO other, away TO jobs")
	awaitCount(t, db, 3, "id > 1 AND status = 'done' AND result = 'ok'")
	l.expectOnce(t, 4)
}
