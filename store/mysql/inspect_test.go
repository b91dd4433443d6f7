package mysql_test

import (
	"slices"
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// found tells whether an inspection of a table's server has a warning of that, with a remedy.
func found(t *testing.T, table *mysql.Table, what string) bool {
	t.Helper()
	seen := must.Get(table.Inspect(t.Context()))(t)
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

// Regression: plain mariadb-install-db lets everybody do everything in the database test, by a grant
// TO PUBLIC. It is told; so it is with a role.
func TestInspectTellsWhoHasRights(t *testing.T) {
	t.Parallel()
	if !shared.IsMariaDB() {
		t.Skip("MySQL knows no PUBLIC, and tells the rights of roles only if asked")
	}
	db := newDatabaseOn(t, newServer(t), dbserver.JobsTable)
	config := db.config()
	config.User, config.Password = "who", "hunter2"
	db.exec(t, "CREATE USER who@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON jobs TO who@'%'")
	told := func() store.Finding {
		t.Helper()
		seen := must.Get(open(t, config).Inspect(t.Context()))(t)
		at := slices.IndexFunc(seen.Findings, func(f store.Finding) bool { return f.Where == "account who@%" })
		if at < 0 {
			return store.Finding{}
		}
		return seen.Findings[at]
	}
	if f := told(); f.What != "" {
		t.Errorf("of an account with the rights it needs: %+v", f)
	}
	db.exec(t, "CREATE DATABASE test; GRANT ALL ON test.* TO PUBLIC; GRANT SELECT, INSERT ON `test\\_%`.* TO PUBLIC")
	f := told()
	if !strings.Contains(f.What, " on `test`.*") || !strings.HasPrefix(f.Remedy, "REVOKE what is beyond SELECT and UPDATE on") {
		t.Errorf("PUBLIC may do everything: %+v", f)
	}
	db.exec(t, "REVOKE ALL PRIVILEGES ON `test`.* FROM PUBLIC; REVOKE ALL PRIVILEGES ON `test\\_%`.* FROM PUBLIC")
	if f := told(); f.What != "" {
		t.Errorf("behind the remedy: %+v", f)
	}
	db.exec(t, "CREATE ROLE cleaner; GRANT DELETE ON jobs TO cleaner; GRANT cleaner TO who@'%'; SET DEFAULT ROLE cleaner FOR who@'%'; GRANT INSERT ON jobs TO who@'%'")
	jobs := "`" + db.name + "`.`jobs`"
	if f := told(); !strings.Contains(f.What, "DELETE on "+jobs) {
		t.Errorf("its role and the account may do more: %+v", f)
	}
}
