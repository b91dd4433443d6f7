package mysql_test

import (
	"errors"
	"fmt"
	"slices"
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
		want     string // of servers that say different things, each, with | between them
	}{
		"a wrong password":     {"CREATE USER %u@'%' IDENTIFIED BY 'other'", nil, "Access denied"},
		"no privilege at all":  {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'", nil, "denied"},
		"SELECT only":          {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT ON jobs TO %u@'%'", nil, "UPDATE command denied"},
		"UPDATE of a column":   {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE (status) ON jobs TO %u@'%'", nil, "UPDATE command denied"},
		"another table":        {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON *.* TO %u@'%'", func(c *mysql.Config) { c.Table = "jbos" }, "jbos' doesn't exist"},
		"another database":     {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2'; GRANT SELECT, UPDATE ON *.* TO %u@'%'", func(c *mysql.Config) { c.Database = "nowhere" }, "Unknown database 'nowhere'"},
		"an account locked":    {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2' ACCOUNT LOCK", nil, "locked"},
		"an account for TLS":   {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2' REQUIRE SSL", nil, "Access denied"},
		"an expired password":  {"CREATE USER %u@'%' IDENTIFIED BY 'hunter2' PASSWORD EXPIRE; GRANT SELECT, UPDATE ON jobs TO %u@'%'", nil, "SET PASSWORD|password has expired"},
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
				says := func(want string) bool { return strings.Contains(said, want) }
				if !slices.ContainsFunc(strings.Split(c.want, "|"), says) || !strings.Contains(said, way) || strings.Contains(said, password) {
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
