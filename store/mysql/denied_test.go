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
)

// Whoever is not let in reads which user that is, who the server takes him for, where the server
// is, which key says so, and what mends it. The GRANTs are tried.
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
			want: []string{"Access denied", "user '%u' (mysql_user)", "from host '127.0.0.1' as it sees it", "with the password of mysql_password", "at 127.0.0.1:%p (mysql_host, mysql_port)", "an anonymous one (''@'127.0.0.1') goes before '%u'@'%'", "DROP USER ''@'127.0.0.1'"},
		},
		{
			name: "no password", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'other'", change: func(c *mysql.Config) { c.Password = "" },
			want: []string{"without a password (mysql_password is empty)"},
		},
		{
			name: "no account for this host", accounts: "CREATE USER %u@'10.1.1.1' IDENTIFIED BY 'hunter2'",
			want: []string{"CREATE USER '%u'@'127.0.0.1' IDENTIFIED BY '...'", "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'127.0.0.1'"},
		},
		{
			name: "no privilege at all", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'",
			want: []string{"account '%u'@'%' (mysql_user)", "no privilege in database '%d' (mysql_database), which may be missing: then make it before the GRANT"}, mend: "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'%'",
		},
		{
			name: "SELECT only", accounts: "CREATE USER %u@'127.0.0._' IDENTIFIED BY 'hunter2'; GRANT SELECT ON jobs TO %u@'127.0.0._'",
			want: []string{"account '%u'@'127.0.0._' (mysql_user)", "lacks the privilege UPDATE on table `%d`.`jobs` (mysql_table)"}, mend: "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'127.0.0._'",
		},
		{
			name: "UPDATE of a column", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE (status) ON jobs TO %u@'%'",
			want: []string{"lacks the privilege UPDATE on a column of table `%d`.`jobs` (mysql_table)"}, mend: "GRANT SELECT, UPDATE ON `%d`.`jobs` TO '%u'@'%'",
		},
		{
			name: "another table", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON %d.* TO %u@'%'", change: func(c *mysql.Config) { c.Table = "jbos" },
			want: []string{"database '%d' (mysql_database) has no table 'jbos' (mysql_table)", "SHOW TABLES FROM `%d`"},
		},
		{
			name: "another table, and no privilege", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT ON jobs TO %u@'%'", change: func(c *mysql.Config) { c.Table = "jbos" },
			want: []string{"on table `%d`.`jbos` (mysql_table), which may be missing: then make it before the GRANT, as README.md does", "GRANT SELECT, UPDATE ON `%d`.`jbos` TO '%u'@'%'"},
		},
		{
			name: "another database", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON *.* TO %u@'%'", change: func(c *mysql.Config) { c.Database = "nowhere" },
			want: []string{"has no database 'nowhere' (mysql_database)"},
		},
		{
			name: "locked", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2' ACCOUNT LOCK; GRANT SELECT, UPDATE ON jobs TO %u@'%'",
			want: []string{"user '%u' (mysql_user) is locked", "ALTER USER '%u'@'%' ACCOUNT UNLOCK (with the account's host: SELECT host FROM mysql.user WHERE user = '%u')"},
		},
		{
			name: "expired", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2' PASSWORD EXPIRE; GRANT SELECT, UPDATE ON jobs TO %u@'%'", want: []string{"password of user '%u' (mysql_user) has expired", "ALTER USER '%u'@'%' IDENTIFIED BY"},
		},
		{
			name: "by the kernel's user", accounts: "CREATE USER %u@'%' IDENTIFIED VIA unix_socket", want: []string{"by other means than a password", "ALTER USER '%u'@'%' IDENTIFIED BY"},
		},
		{
			name: "TLS only", accounts: "CREATE USER %u@'%' IDENTIFIED BY 'hunter2' REQUIRE SSL", want: []string{"the account or the server requires TLS (REQUIRE SSL"},
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

// The trap of the anonymous account: it is nearer to a host than the user's own account for any
// host.
func TestAnonymousAccount(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, newServer(t), dbserver.JobsTable)
	db.exec(t, "CREATE USER who@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON jobs TO who@'%'; CREATE USER ''@localhost")
	config := db.config()
	config.Host, config.User, config.Password = db.server.Socket(), "who", "hunter2"
	for password, want := range map[string]string{
		"hunter2": "an anonymous one (''@'localhost') goes before 'who'@'%': DROP USER ''@'localhost'",
		"":        "takes user 'who' (mysql_user) for the anonymous account ''@'localhost', which goes before 'who'@'%'; DROP USER ''@'localhost', or CREATE USER 'who'@'localhost'",
	} {
		config.Password = password
		if err := open(t, config).Check(t.Context()); !unusable(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), config.Host+" (mysql_host)") {
			t.Errorf("%v; want to hear: %s", err, want)
		}
	}
	db.exec(t, "DROP USER ''@'localhost'")
	config.Password = "hunter2"
	if err := open(t, config).Check(t.Context()); err != nil {
		t.Errorf("without the anonymous account: %v", err)
	}
}

// Regression: MariaDB answers to a name that it does not know as to one of those that it knows, so that
// nobody can tell them apart. Where that one is let in by the kernel's user, as root often is, all that
// was told to somebody without an account was to change the account.
func TestAnUnknownNameIsToldHowToGetAnAccount(t *testing.T) {
	t.Parallel()
	if !shared.IsMariaDB() {
		t.Skip("MySQL does not answer so")
	}
	db := newDatabaseOn(t, newServer(t), dbserver.JobsTable)
	db.exec(t, "CREATE USER somebody@'%' IDENTIFIED VIA unix_socket")
	config := db.config()
	byOtherMeans := 0
	for i := range 64 {
		config.User = fmt.Sprint("nobody_", i)
		err := open(t, config).Check(t.Context())
		if want := "CREATE USER '" + config.User + "'@'127.0.0.1'"; !unusable(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want to hear: %s", err, want)
		}
		if strings.Contains(err.Error(), "1698") {
			byOtherMeans++
		}
	}
	if byOtherMeans == 0 {
		t.Error("the server took none of the names for somebody whom the kernel knows")
	}
	t.Logf("%d names were taken for somebody else's", byOtherMeans)
}

// What keeps the way from leading to the server, in words for those who can mend it.
func TestNoWayToTheServer(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config mysql.Config
		want   string
	}{
		"refused":        {mysql.Config{Host: "127.0.0.1", Port: port}, fmt.Sprintf("nothing listens at 127.0.0.1:%d (mysql_host, mysql_port); start the server", port)},
		"no such name":   {mysql.Config{Host: "nobody.invalid"}, "the name of the server, nobody.invalid (mysql_host), leads to no address"},
		"no such socket": {mysql.Config{Host: "/nowhere/s.sock"}, "there is no socket /nowhere/s.sock (mysql_host)"},
	} {
		c.config.Database, c.config.User, c.config.Password = "d", "u", "hunter2"
		table := open(t, c.config)
		findings, err := table.Findings(t.Context(), []string{"a"})
		var unreachable *store.Unreachable
		problem := table.Check(t.Context())
		if !errors.As(problem, &unreachable) || !strings.Contains(problem.Error(), c.want) {
			t.Errorf("%s: %v; want to hear: %s", name, problem, c.want)
		}
		what, remedy, _ := strings.Cut(c.want, "; ")
		if err == nil || len(findings) != 1 || !strings.Contains(findings[0].What, what) || !strings.Contains(findings[0].Remedy, remedy) {
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
	if want := "has no connection left; SET GLOBAL max_connections to more, or mysql_max_connections of the workers to less (this one takes up to 8)"; err == nil || unusable(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want to hear: %s", err, want)
	}
}
