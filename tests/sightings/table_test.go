package sightings

import (
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
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
	conn, err := db.Admin.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"); err != nil {
		t.Fatal(err)
	}
	poll(t, worker)
	l.letGo(t)
	<-time.After(2 * moment) // that is how long it is locked
	if _, err := conn.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, db, 21, "status = 'done' AND result = 'ok'")
	l.expectOnce(t, 21)
}

// The server takes no writes for a while, as before a failover. When it does again all is done, without another
// hint.
func TestAServerThatTakesNoWritesForAWhile(t *testing.T) {
	t.Parallel()
	server, err := dbserver.Start(t.Context(), dbserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
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
