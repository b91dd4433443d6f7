package mysql_test

import (
	"errors"
	"testing"
	"time"

	"jobd/store"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// What is wrong with the table itself is still said, though only an update of rows met it.
func TestTableThatBecomesUnusable(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, change, undo string }{
		{"renamed", "RENAME TABLE jobs TO jbos", "RENAME TABLE jbos TO jobs"},
		{"a column less", "ALTER TABLE jobs CHANGE stdout std_out mediumtext", "ALTER TABLE jobs CHANGE std_out stdout mediumtext"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table, looks, claims := db.table(t), db.table(t), db.table(t)
			changes := db.running(t, 3)
			db.exec(t, c.change)
			for range 2 {
				if _, err := looks.Look(t.Context(), []int64{1}); c.name == "renamed" && !unusable(err) {
					t.Errorf("Look: %v; want it to be unusable", err)
				}
				if err := claims.Claim(t.Context(), map[string]int{"a": 1}, nil, accept); c.name == "renamed" && !unusable(err) {
					t.Errorf("Claim: %v; want it to be unusable", err)
				}
				if got, err := table.Apply(t.Context(), changes); !unusable(err) || !store.IsAway(err) {
					t.Errorf("Apply: %v, %v; want it to be unusable", got, err)
				}
			}
			db.exec(t, c.undo)
			got, err := table.Apply(t.Context(), changes)
			if err != nil || len(db.held(t, changes, got)) > 0 {
				t.Errorf("as it was: %v, %v", got, err)
			}
		})
	}
}

// Only a connection that can't be had or is lost, and a table that can't be used, count as away.
func TestWhatCountsAsAway(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	table := db.table(t)
	changes := db.running(t, 3)
	apply := func() error {
		_, err := table.Apply(t.Context(), changes)
		return err
	}
	var unreachable *store.Unreachable
	db.exec(t, "SET GLOBAL read_only = 1")
	if err := apply(); !errors.As(err, &unreachable) {
		t.Errorf("on a read-only server: %v", err)
	}
	db.exec(t, "SET GLOBAL read_only = 0")
	if err := apply(); err != nil {
		t.Errorf("when it takes writes again: %v", err)
	}
	must.Do(t, server.Kill())
	methods := map[string]error{
		"Apply": apply(), "Check": table.Check(t.Context()),
		"Claim": table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept),
	}
	_, methods["Look"] = table.Look(t.Context(), []int64{1})
	_, methods["Server"] = table.Server(t.Context())
	_, _, methods["Rows"] = table.Rows(t.Context(), []int64{1})
	_, methods["UnderWay"] = table.UnderWay(t.Context(), "@", nil)
	for method, err := range methods {
		if !errors.As(err, &unreachable) || !store.IsAway(err) {
			t.Errorf("%s of a killed server: %v; want it unreachable", method, err)
		}
	}
}

// A lock on the whole table ends; it never counts as the table being away.
func TestLockedTableIsNotAway(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	changes := db.running(t, 20)
	locker := must.Get(db.app.Conn(t.Context()))(t)
	defer locker.Close()
	must.Get(locker.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"))(t)
	begun := time.Now()
	got, err := table.Apply(t.Context(), changes)
	if err != nil {
		t.Fatalf("Apply: %v; want everything held", err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	must.Get(locker.ExecContext(t.Context(), "UNLOCK TABLES"))(t)
	if held := db.held(t, changes, got); len(held) != len(changes) {
		t.Errorf("held %v, want all", held)
	}
}
