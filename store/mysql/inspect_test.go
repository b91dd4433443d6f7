package mysql_test

import (
	"slices"
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
)

// found tells whether an inspection of a table's server has a warning of that, with a remedy.
func found(t *testing.T, table *mysql.Table, what string) bool {
	t.Helper()
	seen, err := table.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(seen.Findings, func(f store.Finding) bool {
		return f.Severity == store.Warning && f.Where == "server" && strings.Contains(f.What, what) && f.Remedy != ""
	})
}

// What a server is set to and has its price is told with a remedy, by --check too.
func TestInspectWarnsOfTheServer(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		args []string
		want string
	}{
		{
			"a clock an hour ahead",
			[]string{"--sysdate-is-now", "--init-connect=SET timestamp = UNIX_TIMESTAMP() + 3600"},
			"ahead of this host's",
		},
		{
			"a clock an hour behind",
			[]string{"--sysdate-is-now", "--init-connect=SET timestamp = UNIX_TIMESTAMP() - 3600"},
			"behind this host's",
		},
		{
			"a binary log of statements",
			[]string{"--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT"},
			"binlog_format is STATEMENT, with which the server refuses READ COMMITTED",
		},
	}
	usual := newDatabase(t, dbserver.JobsTable).table(t)
	for _, c := range cases {
		if found(t, usual, c.want) {
			t.Errorf("%s: %q is told of the usual server, too", c.name, c.want)
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := newDatabaseOn(t, newServer(t, c.args...), dbserver.JobsTable).table(t)
			if !found(t, table, c.want) {
				seen, err := table.Inspect(t.Context())
				t.Errorf("nothing says %q among %v, facts %v, %v", c.want, seen.Findings, seen.Facts, err)
			}
		})
	}
}
