package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

// The error of a refused login says which user that is, which account the server takes it for, where
// the server is, which key says so, and what mends it. The GRANTs are tried.
func TestDeniedSaysWhoWhereAndWhatMendsIt(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	cases := []struct {
		name     string
		accounts string // %d: the database, %u: the user
		change   func(*mysql.Config)
		want     []string
		mend     string // as in the error; "" is not tried
	}{
		{
			name: "a wrong password", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'other'",
			want: []string{"Access denied", "user '%u' (mysql_user)", "at 127.0.0.1:%p (mysql_host, mysql_port)", "correct mysql_user and mysql_password", "CREATE USER '%u'@'127.0.0.1'", "DROP USER ''@'127.0.0.1'"},
		},
		{
			name: "no password", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'other'", change: func(c *mysql.Config) { c.Password = "" },
			want: []string{"using password: NO", "mysql_password"},
		},
		{
			name: "no account for this host", accounts: "CREATE USER %u@'10.1.1.1' IDENTIFIED BY 'hunter2'",
			want: []string{"CREATE USER '%u'@'127.0.0.1' IDENTIFIED BY '...'", "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'127.0.0.1'"},
		},
		{
			name: "no privilege at all", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'",
			want: []string{"user '%u' (mysql_user)"}, mend: "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'%'",
		},
		{
			name: "SELECT only", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT ON jobs TO %u@'%'",
			want: []string{"UPDATE command denied"}, mend: "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'%'",
		},
		{
			name: "UPDATE of a column", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE (status) ON jobs TO %u@'%'",
			want: []string{"UPDATE command denied"}, mend: "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'%'",
		},
		{
			name: "another table", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON %d.* TO %u@'%'", change: func(c *mysql.Config) { c.Table = "jbos" },
			want: []string{"%d.jbos' doesn't exist", "name in mysql_database and mysql_table what the server has"},
		},
		{
			name: "another table, and no privilege", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT ON jobs TO %u@'%'", change: func(c *mysql.Config) { c.Table = "jbos" },
			want: []string{"command denied", "GRANT SELECT, UPDATE ON `%d`.`jbos` TO '%u'@'%'"},
		},
		{
			name: "another database", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON *.* TO %u@'%'", change: func(c *mysql.Config) { c.Database = "nowhere" },
			want: []string{"Unknown database 'nowhere'", "mysql_database"},
		},
		{
			name: "locked", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2' ACCOUNT LOCK; GRANT SELECT, UPDATE ON jobs TO %u@'%'",
			want: []string{"ALTER USER '%u'@'%' ACCOUNT UNLOCK"},
		},
		{
			name: "expired", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2' PASSWORD EXPIRE; GRANT SELECT, UPDATE ON jobs TO %u@'%'", want: []string{"SET PASSWORD", "correct mysql_user and mysql_password"},
		},
		{
			name: "by the kernel's user", accounts: "CREATE USER %u@'%' IDENTIFIED VIA unix_socket", want: []string{"CREATE USER '%u'@'127.0.0.1' IDENTIFIED BY"},
		},
		{
			name: "TLS only", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2' REQUIRE SSL", want: []string{"Access denied"},
		},
	}
	for _, c := range cases {
		if !shared.IsMariaDB() && strings.Contains(c.accounts, "unix_socket") {
			continue // MySQL's like is a plugin that must be installed
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			user := "who_" + db.name
			config := db.config()
			fill := func(text string) string {
				return strings.NewReplacer("%d", db.name, "%u", user, "%p", fmt.Sprint(config.Port)).Replace(text)
			}
			db.exec(t, fill(c.accounts))
			config.User, config.Password = user, password
			if c.change != nil {
				c.change(&config)
			}
			problem := open(t, config).Check(t.Context())
			findings, err := open(t, config).Findings(t.Context(), nil)
			if !unusable(problem) || err == nil || len(findings) != 1 || findings[0].Severity != store.Fault {
				t.Fatalf("Check: %v, findings %q, %v", problem, findings, err)
			}
			t.Log(findings[0])
			for _, want := range c.want {
				for _, said := range []string{problem.Error(), findings[0].String()} {
					if !strings.Contains(said, fill(want)) {
						t.Errorf("%q does not say %q", said, fill(want))
					}
				}
			}
			if strings.Contains(problem.Error()+findings[0].String(), password) {
				t.Error("the password is told")
			}
			if c.mend == "" {
				return
			}
			if findings[0].Remedy != fill(c.mend) {
				t.Errorf("the remedy is %q, want %q", findings[0].Remedy, fill(c.mend))
			}
			db.exec(t, findings[0].Remedy)
			if err := open(t, config).Check(t.Context()); err != nil {
				t.Errorf("behind the remedy: %v", err)
			}
		})
	}
}

// What keeps the way from leading to the server, in words for those who can mend it.
func TestNoWayToTheServer(t *testing.T) {
	t.Parallel()
	port := must.Get(freeport.Take())(t)
	for name, c := range map[string]struct {
		config mysql.Config
		want   string
	}{
		"refused":        {mysql.Config{Host: "127.0.0.1", Port: port}, fmt.Sprintf("127.0.0.1:%d (mysql_host, mysql_port)", port)},
		"no such name":   {mysql.Config{Host: "nobody.invalid"}, "nobody.invalid"},
		"no such socket": {mysql.Config{Host: "/nowhere/s.sock"}, "/nowhere/s.sock (mysql_host)"},
	} {
		c.config.Database, c.config.User, c.config.Password = "d", "u", "hunter2"
		table := open(t, c.config)
		findings, err := table.Findings(t.Context(), []string{"a"})
		var unreachable *store.Unreachable
		problem := table.Check(t.Context())
		if !errors.As(problem, &unreachable) || !strings.Contains(problem.Error(), c.want) {
			t.Errorf("%s: %v; want to hear: %s", name, problem, c.want)
		}
		if err == nil || len(findings) != 1 || !strings.Contains(findings[0].String(), c.want) || !strings.Contains(findings[0].Remedy, "start the server") {
			t.Errorf("%s: findings %q, %v", name, findings, err)
		}
	}
}

// A server that has no connection left, and one that blocks this host, say so with the remedy.
func TestServerLetsNobodyIn(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, newServer(t, "--max-connections=10"), dbserver.JobsTable)
	config := db.config()
	config.MaxOpen = 20
	hogs := open(t, config).DB()
	var problem error
	for problem == nil {
		conn, err := hogs.Conn(t.Context())
		if problem = err; err == nil {
			defer conn.Close()
		}
	}
	config.MaxOpen = 8
	err := open(t, config).Check(t.Context())
	if want := "raise the server's limit, or lower mysql_max_connections of the workers (this one takes up to 8)"; err == nil || unusable(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want to hear: %s", err, want)
	}
}
