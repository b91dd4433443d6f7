package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
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
		check.Do(t, server.Close())
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
		{"no database", mysql.Config{Host: "h"}, "no database is named"},
		{"no database before the dot", mysql.Config{Host: "h", Table: ".jobs"}, "no database is named"},
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
