package sqlite_test

import (
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"jobd/journal"
	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a table and closes it when the test ends.
func open(t *testing.T, config sqlite.Config) *sqlite.Table {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	table := must.Get(sqlite.New(config))(t)
	t.Cleanup(func() {
		check.Do(t, table.Close())
	})
	return table
}

// confirmed lets a table make claims in the file that it finds.
func confirmed(t *testing.T, table *sqlite.Table) *sqlite.Table {
	t.Helper()
	server := must.Get(table.Server(t.Context()))(t)
	table.Confirm(server)
	return table
}

// application is the application's own access to the file.
func application(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	must.Get(db.Exec(query, args...))(t)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		path := filepath.Join(t.TempDir(), "jobs 100%?#.db")
		table := confirmed(t, open(t, sqlite.Config{Path: path}))
		escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
		return storetest.Fixture{
			DB: application(t, escaped), Table: table, Other: confirmed(t, open(t, sqlite.Config{Path: path})),
			Charset: journal.CharsetFull,
		}
	})
}

func TestConformanceOfTimes(t *testing.T) {
	t.Parallel()
	storetest.RunTimes(t, func(t *testing.T) storetest.Fixture {
		path := filepath.Join(t.TempDir(), "jobs.db")
		return storetest.Fixture{
			DB: application(t, path), Table: confirmed(t, open(t, sqlite.Config{Path: path, Uses: store.TimeColumns()})),
			Other: confirmed(t, open(t, sqlite.Config{Path: path})), Charset: journal.CharsetFull,
		}
	})
}

func TestEveryConnectionIsDurable(t *testing.T) { // pitfalls 18 and 19
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	must.Do(t, open(t, sqlite.Config{Path: path}).Check(t.Context()))
	var mode string
	if err := application(t, path).QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal_mode is %q (%v), want wal", mode, err)
	}
}

func TestNewFileGetsTheTableAndNothingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path, Table: "work", ClaimColumn: "ran_by", Worker: "node-1"}))
	db := application(t, path)
	var tables string
	if err := db.QueryRow("SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").Scan(&tables); err != nil || tables != "work" {
		t.Errorf("tables %q (%v), want only work", tables, err)
	}
	var rows int
	if err := db.QueryRow("SELECT COUNT(*) FROM work").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows (%v) in a new table, want none", rows, err)
	}

	exec(t, db, "INSERT INTO work (target, time_created) VALUES ('a', 1)")
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		return []journal.Event{{Job: rows[0].Job, Payload: journal.Accepted{Target: "a", Token: "@abcd01234"}}}, nil
	}))
	expectOwner(t, db, "accepted", "@abcd01234", "")
	change := store.Change{Job: 1, Token: "@abcd01234", Status: "done", Done: &journal.Done{Result: "fail", Signal: "SIGTERM"}}
	if got, err := table.Apply(t.Context(), []store.Change{change}); err != nil || got[0].Fate != store.Applied {
		t.Fatalf("Apply: %v, %v", got, err)
	}
	expectOwner(t, db, "done", "node-1", "SIGTERM")
}

func expectOwner(t *testing.T, db *sql.DB, status, ranBy, sig string) {
	t.Helper()
	var got [3]string
	must.Do(t, db.QueryRow("SELECT status, ran_by, COALESCE(sig, '') FROM work").Scan(&got[0], &got[1], &got[2]))
	if want := [3]string{status, ranBy, sig}; got != want {
		t.Errorf("status, ran_by and sig are %q, want %q", got, want)
	}
}

func TestBusyFileIsWorthAnotherTry(t *testing.T) { // pitfall 20
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := open(t, sqlite.Config{Path: path})
	must.Do(t, table.Check(t.Context()))
	writer, err := application(t, path).Conn(t.Context())
	must.Do(t, err)
	defer writer.Close()
	must.Get(writer.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
	_, _, err = table.Rows(t.Context(), []int64{1})
	var unusable *store.Unusable
	if err == nil || errors.As(err, &unusable) {
		t.Errorf("with another writer at work: %v; want an error that waiting mends", err)
	}
	must.Get(writer.ExecContext(t.Context(), "ROLLBACK"))(t)
	if _, _, err := table.Rows(t.Context(), []int64{1}); err != nil {
		t.Errorf("after the other writer: %v", err)
	}
}

func TestTimekeeper(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	uses := confirmed(t, open(t, sqlite.Config{Path: path, Uses: store.TimeColumns()}))
	must.Do(t, uses.Check(t.Context()))
	storetest.RunTimekeeper(t, application(t, path), uses, confirmed(t, open(t, sqlite.Config{Path: path})))
}
