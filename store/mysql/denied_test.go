package mysql_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

// The error of a refused login says what the server says, which user that is, where the server is, and which
// keys say so.
func TestDeniedSaysWhoAndWhere(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	for name, c := range map[string]struct {
		accounts string // %u: the user
		change   func(*mysql.Config)
		want     string
	}{
		"a wrong password":     {"CREATE USER %u@'%' IDENTIFIED BY 'other'", nil, "Access denied"},
		"no privilege at all":  {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'", nil, "denied"},
		"SELECT only":          {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT ON jobs TO %u@'%'", nil, "UPDATE command denied"},
		"UPDATE of a column":   {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE (status) ON jobs TO %u@'%'", nil, "UPDATE command denied"},
		"another table":        {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON *.* TO %u@'%'", func(c *mysql.Config) { c.Table = "jbos" }, "jbos' doesn't exist"},
		"another database":     {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON *.* TO %u@'%'", func(c *mysql.Config) { c.Database = "nowhere" }, "Unknown database 'nowhere'"},
		"an account locked":    {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2' ACCOUNT LOCK", nil, "locked"},
		"an account for TLS":   {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2' REQUIRE SSL", nil, "Access denied"},
		"an expired password":  {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2' PASSWORD EXPIRE; GRANT SELECT, UPDATE ON jobs TO %u@'%'", nil, "SET PASSWORD"},
		"no account for hosts": {"CREATE USER %u@'10.1.1.1' IDENTIFIED BY 'hunter2'", nil, "(mysql_user)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			config := db.config()
			config.User, config.Password = "who_"+db.name, password
			db.exec(t, strings.ReplaceAll(c.accounts, "%u", config.User))
			if c.change != nil {
				c.change(&config)
			}
			problem := open(t, config).Check(t.Context())
			findings, err := open(t, config).Findings(t.Context(), nil)
			if !unusable(problem) || err == nil || len(findings) != 1 || findings[0].Severity != store.Fault {
				t.Fatalf("Check: %v, findings %q, %v", problem, findings, err)
			}
			way := fmt.Sprintf("at 127.0.0.1:%d (mysql_host, mysql_port), user '%s' (mysql_user)", config.Port, config.User)
			for _, said := range []string{problem.Error(), findings[0].String()} {
				if !strings.Contains(said, c.want) || !strings.Contains(said, way) || strings.Contains(said, password) {
					t.Errorf("%q does not say %q and %q, or tells the password", said, c.want, way)
				}
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
		if err == nil || len(findings) != 1 || !strings.Contains(findings[0].String(), c.want) {
			t.Errorf("%s: findings %q, %v", name, findings, err)
		}
	}
}

// The account may do what it must, or the start says what is missing.
func TestCheckAccount(t *testing.T) {
	t.Parallel()
	const written = "(status, time_started, time_finished, result, return_code, sig, stdout, stderr)"
	cases := []struct {
		name  string
		grant string
		ok    bool
	}{
		{"only SELECT", "SELECT ON %.jobs", false},
		{"only UPDATE", "UPDATE ON %.jobs", false},
		{"UPDATE of one column", "SELECT, UPDATE (status) ON %.jobs", false},
		{"UPDATE of the columns that are written", "SELECT, UPDATE " + written + " ON %.jobs", true},
		{"the whole database", "SELECT, UPDATE ON %.*", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			account := dbserver.Account{User: "x_" + db.name, Password: "x"}
			must.Do(t, db.server.CreateAccount(t.Context(), account, strings.ReplaceAll(c.grant, "%", db.name)))
			config := db.config()
			config.User, config.Password = account.User, account.Password
			err := open(t, config).Check(t.Context())
			if c.ok && err != nil || !c.ok && (!unusable(err) || !strings.Contains(err.Error(), "denied")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A privilege that is taken away later is as clear, and its return is noticed.
func TestAccessLostAndRegained(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	id := db.insert(t, "a", journal.RowRunning, token)
	grant := func(what string) {
		for _, host := range []string{"'%'", "'localhost'"} {
			db.exec(t, what+" "+db.account.User+"@"+host)
		}
	}
	grant("REVOKE UPDATE ON jobs FROM")
	if _, err := table.Apply(t.Context(), []store.Change{done(id, "x")}); !unusable(err) {
		t.Errorf("without UPDATE: %v", err)
	}
	if err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept); !unusable(err) {
		t.Errorf("without UPDATE: %v", err)
	}
	grant("GRANT UPDATE ON jobs TO")
	if got, err := table.Apply(t.Context(), []store.Change{done(id, "x")}); err != nil || got[0] != (store.Outcome{}) {
		t.Errorf("with UPDATE again: %v, %v", got, err)
	}
}

// What waiting mends is an ordinary error.
func TestCheckOfAnAbsentServer(t *testing.T) {
	t.Parallel()
	closed := must.Get(freeport.Take())(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cases := []struct {
		name   string
		config mysql.Config
	}{
		{"refused", mysql.Config{Host: "127.0.0.1", Port: closed}},
		{"no such name", mysql.Config{Host: "nobody.invalid"}},
		{"no such socket", mysql.Config{Host: "/nowhere/s.sock"}},
		{"no answer", mysql.Config{Host: "127.0.0.1", Port: silent.Addr().(*net.TCPAddr).Port, ReadTimeout: 50_000_000}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.config.Database, c.config.User = "d", "u"
			if err := open(t, c.config).Check(t.Context()); err == nil || unusable(err) {
				t.Errorf("got %v; want an ordinary error", err)
			}
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	server := newServer(t, "--max-connections=10")
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	table := db.table(t)
	db.killAll(t) // the table's own connection
	hog := db.config()
	hog.MaxOpen = 20
	var held []interface{ Close() error }
	hogs := open(t, hog).DB()
	for {
		conn, err := hogs.Conn(t.Context())
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	if err := table.Check(t.Context()); err == nil || unusable(err) {
		t.Errorf("with all connections taken: %v; want an ordinary error", err)
	}
	for _, conn := range held {
		conn.Close()
	}
	must.Do(t, hogs.Close())
	untilChecked(t, table)
}

// untilChecked polls: the server tells nobody when it has done with closed connections.
func untilChecked(t *testing.T, table store.Table) {
	t.Helper()
	deadline := time.After(hung)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := table.Check(t.Context())
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("with connections to be had: %v", err)
		}
	}
}

func TestCheckWarnsWithoutIndex(t *testing.T) {
	t.Parallel()
	const key = "KEY `status_target_idx` (`status`, `target`, `id`)"
	cases := []struct {
		name, table string
		warns       int
	}{
		{"as usual", dbserver.JobsTable, 0},
		{"target first", replaced(key, "KEY `x` (`target`, `status`, `id`)"), 0},
		{"without id", replaced(key, "KEY `x` (`target`, `status`)"), 0},
		{"status alone", replaced(key, "KEY `x` (`status`)"), 1},
		{"something between", replaced(key, "KEY `x` (`status`, `time_created`, `target`)"), 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var written log
			config := newDatabase(t, c.table).config()
			config.Logger = written.logger()
			table := open(t, config)
			for range 2 {
				must.Do(t, table.Check(t.Context()))
			}
			if n := strings.Count(written.String(), "ADD INDEX"); n != c.warns {
				t.Errorf("%d warnings, want %d:\n%s", n, c.warns, written.String())
			}
		})
	}
}
