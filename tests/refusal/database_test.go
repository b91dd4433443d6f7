package refusal

import (
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// without is the usual table less some columns.
func without(columns ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(dbserver.JobsTable) {
		missing := slices.ContainsFunc(columns, func(name string) bool { return strings.HasPrefix(line, "  `"+name+"`") })
		if !missing {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// What waiting cannot mend ends the start, with words that name what is wrong.
func TestDatabaseThatCannotWork(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		table string
		wrong harness.Settings
		words []string
	}{
		{name: "column stdout missing", table: without("stdout"), words: []string{"stdout"}},
		{name: "column time_finished missing", table: without("time_finished"), words: []string{"time_finished"}},
		{name: "two columns missing", table: without("sig", "stderr"), words: []string{"it has no column sig", "ADD COLUMN `sig` char(10) DEFAULT NULL", "ADD COLUMN `stderr` mediumtext DEFAULT NULL"}},
		{
			name: "a DATETIME for a number", table: strings.ReplaceAll(dbserver.JobsTable, "`time_started` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_started` datetime DEFAULT NULL"),
			words: []string{"column time_started (datetime) must be a whole number", "ALTER TABLE"},
		},
		{name: "MyISAM", table: strings.ReplaceAll(dbserver.JobsTable, "InnoDB", "MyISAM"), words: []string{"MyISAM", "InnoDB"}},
		{
			name: "owner column too narrow", table: strings.ReplaceAll(dbserver.JobsTable, "char(10)", "char(5)"),
			words: []string{"sig", "ALTER TABLE"},
		},
		{
			name: "owner column an ENUM", table: strings.ReplaceAll(dbserver.JobsTable, "`sig` char(10)", "`sig` enum('SIGTERM','SIGKILL')"),
			words: []string{"sig", "ALTER TABLE"},
		},
		{name: "claim_column missing", wrong: harness.Settings{"claim_column": "ran_by"}, words: []string{"ran_by"}},
		{name: "wrong password", wrong: harness.Settings{"mysql_password": "do-not-tell"}, words: []string{"denied", "(mysql_user)", "mysql_password", "127.0.0.1:", "(mysql_host, mysql_port)", "DROP USER ''@'127.0.0.1'"}},
		{name: "no such account", wrong: harness.Settings{"mysql_user": "nobody_at_all"}, words: []string{"denied", "nobody_at_all"}},
		{name: "no such database", wrong: harness.Settings{"mysql_database": "no_such_database"}, words: []string{"no_such_database"}},
		{name: "no such table", wrong: harness.Settings{"mysql_table": "no_such_table"}, words: []string{"no_such_table"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := c.table
			if table == "" {
				table = dbserver.JobsTable
			}
			db := harness.NewDatabase(t, table)
			code, output := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(c.wrong).Refused(t)
			expect(t, code, 1, output, c.words...)
			if strings.Contains(output, db.Account.Password) {
				t.Errorf("it tells the password:\n%s", output)
			}
		})
	}
}
