package mysql_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// replaced is the usual table with some of its text replaced, old and new in turns.
func replaced(oldNew ...string) string {
	return strings.NewReplacer(oldNew...).Replace(dbserver.JobsTable)
}

// The tables that were seen in the field, all of which must work. Those that have nothing to do with
// each other share a case.
func TestConformance(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		table   string
		charset journal.Charset
	}{
		{"the usual table", dbserver.JobsTable, journal.CharsetThreeByte},
		{
			"bigint ids, a longer target, more columns, the index named and ordered otherwise",
			replaced(
				"`id` int(10) UNSIGNED", "`id` bigint UNSIGNED", "`target` char(16)", "`target` varchar(190)", "`stdout`", "`note` varchar(20) DEFAULT NULL, `stdout`",
				"KEY `status_target_idx` (`status`, `target`, `id`)", "KEY `x` (`target`, `status`, `id`)",
			),
			journal.CharsetThreeByte,
		},
		{
			"target an ENUM, outputs longtext",
			replaced("`target` char(16)", "`target` enum('b','a','c','d')", "mediumtext", "longtext"),
			journal.CharsetThreeByte,
		},
		{
			"utf8mb4, outputs NOT NULL DEFAULT ''",
			replaced("CHARSET=utf8", "CHARSET=utf8mb4", "mediumtext DEFAULT NULL", "mediumtext NOT NULL DEFAULT ('')"),
			journal.CharsetFull,
		},
		{"outputs longblob", replaced("mediumtext", "longblob"), journal.CharsetFull},
		{"a binary collation", replaced("CHARSET=utf8", "CHARSET=utf8mb4 COLLATE=utf8mb4_bin"), journal.CharsetFull},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conform(t, shared, c.table, c.charset)
		})
	}
}

func conform(t *testing.T, server *dbserver.Server, table string, charset journal.Charset) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		db := newDatabaseOn(t, server, table)
		return storetest.Fixture{DB: db.app, Table: db.table(t), Other: db.table(t), RowLocks: true, Charset: charset}
	})
}

// What the server's own sql_mode is makes no difference: sessions set theirs.
func TestConformanceInSQLModes(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, mode string }{
		{"lax", ""},
		{"strict and quirky", "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,ANSI,NO_BACKSLASH_ESCAPES"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, "--sql-mode="+c.mode)
			conform(t, server, dbserver.JobsTable, journal.CharsetThreeByte)
		})
	}
}

// newServer starts a server of the test's own.
func newServer(t testing.TB, args ...string) *dbserver.Server {
	t.Helper()
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{Args: args}))(t)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestTableByWayOf(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	cases := []struct {
		name   string
		change func(*mysql.Config)
	}{
		{"a socket", func(c *mysql.Config) { c.Host = db.server.Socket() }},
		{"database.table", func(c *mysql.Config) { c.Table, c.Database = db.name+".jobs", "" }},
		{"database.table from another database", func(c *mysql.Config) { c.Table = db.name + ".jobs" }},
		{"the least connections", func(c *mysql.Config) { c.MaxOpen = 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := db.config()
			c.change(&config)
			table := confirmed(t, open(t, config))
			id := db.insert(t, c.name[:1], journal.RowWaiting, "")
			must.Get(table.ClaimManual(t.Context(), []int64{id}, nil, accept))(t)
			if got, err := table.Apply(t.Context(), []store.Change{done(id, "x")}); err != nil || got[0] != (store.Outcome{}) {
				t.Fatalf("Apply: %v, %v", got, err)
			}
			db.expect(t, id, "status sig stdout", "done - x")
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		config mysql.Config
		want   string
	}{
		{"no host", mysql.Config{Database: "d"}, "host is empty"},
		{"no database", mysql.Config{Host: "h"}, "database is empty"},
		{"no database before the dot", mysql.Config{Host: "h", Table: ".jobs"}, "database is empty"},
		{"no table after the dot", mysql.Config{Host: "h", Table: "d."}, "table's name is empty"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := mysql.New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// unusable tells whether an error says that waiting does not help.
func unusable(err error) bool {
	var target *store.Unusable
	return errors.As(err, &target)
}

// A row is ignored also where stderr has no room for the reason, or can't hold its characters: it
// says as much as fits.
func TestCancelledRowsOfNarrowColumns(t *testing.T) {
	t.Parallel()
	for column, want := range map[string]string{
		"`stderr` varchar(9) CHARACTER SET ascii": "[jobd: ca",
		"`stderr` tinytext CHARACTER SET latin1":  "[jobd: cancelled by ?]\n",
	} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, replaced("`stderr` mediumtext DEFAULT NULL", column))
			db.exec(t, "INSERT INTO jobs (id, target, time_created, status, sig) VALUES (1, 'a', 1, 'accepted', ?), (2, 'a', 1, 'waiting', NULL)", token)
			table, reason := db.table(t), journal.CancelledBy("€")
			got, err := table.Apply(t.Context(), []store.Change{{
				Job: 1, Token: token, Accepted: time.Unix(1, 0), Status: journal.RowIgnored, Done: &journal.Done{Note: reason},
			}})
			if err != nil || got[0].Fate != store.Applied {
				t.Fatalf("Apply: %+v, %v; want it applied", got, err)
			}
			must.Get(table.ClaimManual(t.Context(), []int64{2}, nil, func([]journal.Row) ([]journal.Event, error) {
				return []journal.Event{{Job: 2, Payload: journal.Ignored{Reason: reason, By: "€"}}}, nil
			}))(t)
			for _, id := range []int64{1, 2} {
				db.expect(t, id, "status", "ignored")
				var stderr string
				if err := db.app.QueryRow("SELECT stderr FROM jobs WHERE id = ?", id).Scan(&stderr); err != nil || stderr != want {
					t.Errorf("row %d says %q, %v; want %q", id, stderr, err, want)
				}
			}
		})
	}
}
