package mysql_test

import (
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
)

// allTimes uses all optional columns.
var allTimes = store.Uses(store.TimeColumns())

// timedTable is a worker's access to the database, which uses optional columns.
func (d *database) timedTable(t testing.TB, uses store.Uses) *mysql.Table {
	t.Helper()
	config := d.config()
	config.Uses = uses
	return confirmed(t, open(t, config))
}

// What use_columns names and the table lacks ends the start, each with a statement to paste, behind which
// there is nothing left to say. An index that is missing stops claims. Values that are there stay.
func TestFindingsOfOptionalColumns(t *testing.T) {
	t.Parallel()
	const (
		words   = "enum('waiting','manual','accepted','running','done','ignored')"
		delayed = "enum('waiting','manual','accepted','running','done','ignored','delayed')"
		row     = "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', 1)"
		runAt   = "`run_at` int UNSIGNED NOT NULL DEFAULT 0, "
		index   = ", KEY `due` (`status`, `target`, `run_at`)\n) ENGINE"
		column  = "`stdout` mediumtext"
	)
	with := func(columns string, more ...string) string {
		table := replaced(words, delayed, column, columns+column, "\n) ENGINE", index)
		return strings.NewReplacer(more...).Replace(table)
	}
	moments := store.Uses{"run_at"}
	for _, c := range []struct {
		name            string
		uses            store.Uses
		table, rows     string
		want            []string // what is said
		columns, values string   // of row 7, behind it
	}{
		{
			"nothing there", allTimes, dbserver.JobsTable, row,
			[]string{"column status (" + words + ") must hold delayed", "no column run_at", "no column unique_key", "no index on (status, target, run_at)", "no index on (status, target, priority DESC, id)", "unique_key unique"},
			"status run_at planned_at schedule time_zone attempts max_attempts timeout priority unique_key", "waiting 0 0 - - 0 - - 0 -",
		},
		{"a word of the application's", moments, with(runAt, delayed, "enum('waiting','it''s','manual','accepted','running','done','ignored')", "DEFAULT 'waiting'", "DEFAULT 'waiting' COMMENT 'x'"), row, []string{"must hold delayed"}, "status", "waiting"},
		{"status a text", moments, with(runAt, delayed, "varchar(16)", "DEFAULT 'waiting'", "DEFAULT 'manual'"), "INSERT INTO jobs (id, target, time_created, status) VALUES (7, 'a', 1, 'manual')", []string{"must be an ENUM of waiting, manual, accepted, running, done, ignored, delayed"}, "status", "manual"},
		{"an index with the beginning of a target", moments, with(runAt, "KEY `status_target_idx` (`status`, `target`, `id`)", "KEY `x` (`status`, `target`(4))"), row, []string{"no index on (status, target, id)"}, "status", "waiting"},
		{"an index in falling order", moments, with(runAt, "`due` (`status`, `target`, `run_at`)", "`due` (`status`, `target`, `run_at` DESC)"), row, []string{"no index on (status, target, run_at)"}, "status", "waiting"},
		{"run_at a DATETIME", moments, with("`run_at` datetime DEFAULT '2020-01-02 03:04:05', "), row, []string{"column run_at (datetime) must be a whole number, up to 4102444799"}, "run_at former_run_at", "0 2020-01-02 03:04:05"},
		{"run_at signed", moments, with("`run_at` int NOT NULL DEFAULT 0, "), row + "; UPDATE jobs SET run_at = -5", []string{"column run_at (int", "up to 4102444799"}, "run_at", "0"},
		{"run_at takes NULL", moments, with("`run_at` bigint DEFAULT NULL, "), row, []string{"must never be NULL"}, "run_at", "0"},
		{"run_at generated", moments, with("`run_at` int UNSIGNED AS (`time_created` + 1) STORED, "), row, []string{"column run_at (int", "is generated"}, "run_at", "0"},
		{"schedule too short", allTimes, timedDDL("`schedule` varchar(64) DEFAULT NULL", "`schedule` varchar(63) NOT NULL DEFAULT 'daily 01:00' COMMENT 'x'"), row, []string{"column schedule (varchar(63)) must be a text of 64 characters"}, "schedule", "daily 01:00"},
		{"schedule a number", allTimes, timedDDL("`schedule` varchar(64)", "`schedule` int"), row + "; UPDATE jobs SET schedule = 5", []string{"column schedule (int", "must be a text"}, "schedule former_schedule", "- 5"},
		{"attempts a DATETIME", allTimes, timedDDL("`attempts` smallint UNSIGNED NOT NULL DEFAULT 0", "`attempts` datetime NOT NULL DEFAULT '2020-01-02 03:04:05'"), row, []string{"column attempts (datetime) must be a whole number"}, "attempts former_attempts", "0 2020-01-02 03:04:05"},
		{"an ascending index of priorities", allTimes, timedDDL("`priority` DESC", "`priority`"), row, []string{"no index on (status, target, priority DESC, id)"}, "status", "waiting"},
		{"unique_key never NULL", allTimes, timedDDL("`unique_key` varchar(190) DEFAULT NULL", "`unique_key` varchar(190) NOT NULL DEFAULT 'x'"), row, []string{"column unique_key (varchar(190)) must take NULL"}, "unique_key", "x"},
		{"unique_key not unique", allTimes, timedDDL("UNIQUE KEY", "KEY"), row, []string{"no index keeps the values of unique_key unique"}, "unique_key", "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, c.table)
			db.exec(t, c.rows)
			config := db.config()
			config.Uses = c.uses
			for round := 0; ; round++ {
				findings, err := open(t, config).Findings(t.Context(), nil)
				if err != nil || round > 2 {
					t.Fatalf("found %q, %v", findings, err)
				}
				if len(findings) == 0 {
					break
				}
				var said strings.Builder
				isIndex := true
				for _, one := range findings {
					said.WriteString(one.What + "\n")
					isIndex = isIndex && strings.Contains(one.What, "no index on")
					if one.Severity != store.Fault {
						t.Errorf("found %q, want a fault", one)
					}
				}
				for _, want := range c.want {
					if round == 0 && !strings.Contains(said.String(), want) {
						t.Errorf("%q does not say %q", said.String(), want)
					}
				}
				table := open(t, config)
				if problem := table.Check(t.Context()); unusable(problem) == isIndex {
					t.Errorf("Check: %v", problem)
				}
				if problem := table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept); !unusable(problem) || !strings.Contains(problem.Error(), findings[0].Remedy) {
					t.Errorf("Claim: %v", problem)
				}
				for _, one := range findings {
					db.exec(t, "SET SESSION sql_mode='STRICT_ALL_TABLES'; "+one.Remedy)
				}
			}
			db.expect(t, 7, c.columns, c.values)
		})
	}
}

// timedDDL is a table with all optional columns, with some of its text replaced.
func timedDDL(oldNew ...string) string {
	table := replaced("'ignored')", "'ignored','delayed')",
		"`stdout` mediumtext", "`run_at` int UNSIGNED NOT NULL DEFAULT 0, `planned_at` int UNSIGNED NOT NULL DEFAULT 0, `schedule` varchar(64) DEFAULT NULL, "+
			"`time_zone` varchar(64) DEFAULT NULL, `attempts` smallint UNSIGNED NOT NULL DEFAULT 0, `max_attempts` smallint UNSIGNED DEFAULT NULL, "+
			"`timeout` int UNSIGNED DEFAULT NULL, `priority` tinyint NOT NULL DEFAULT 0, `unique_key` varchar(190) DEFAULT NULL, `stdout` mediumtext",
		"\n) ENGINE", ", KEY `due` (`status`, `target`, `run_at`), KEY `first` (`status`, `target`, `priority` DESC, `id`), UNIQUE KEY `unique_key` (`unique_key`)\n) ENGINE")
	return strings.NewReplacer(oldNew...).Replace(table)
}

// What must work is worth no word; and columns that are not named are the application's, whatever
// they are called and whatever they hold.
func TestNoFindingsOfOptionalColumns(t *testing.T) {
	t.Parallel()
	strange := timedDDL("`run_at` int UNSIGNED NOT NULL DEFAULT 0", "`run_at` varchar(9) AS (`time_created`) STORED", "`attempts` smallint UNSIGNED NOT NULL DEFAULT 0", "`attempts` datetime DEFAULT NULL",
		"`unique_key` varchar(190) DEFAULT NULL", "`unique_key` blob NOT NULL DEFAULT ('x')", ", KEY `due` (`status`, `target`, `run_at`)", "", ", UNIQUE KEY `unique_key` (`unique_key`)", "", "`priority` tinyint", "`priority` varchar(9)")
	for name, c := range map[string]struct {
		table string
		uses  store.Uses
	}{
		"all":                   {timedDDL(), allTimes},
		"64 bits":               {timedDDL("`run_at` int UNSIGNED", "`run_at` bigint", "`planned_at` int UNSIGNED", "`planned_at` bigint UNSIGNED"), allTimes},
		"other widths":          {timedDDL("`attempts` smallint UNSIGNED NOT NULL", "`attempts` tinyint", "`priority` tinyint NOT NULL", "`priority` int", "`timeout` int", "`timeout` bigint"), allTimes},
		"longer texts":          {timedDDL("`schedule` varchar(64)", "`schedule` text", "`time_zone` varchar(64)", "`time_zone` varchar(200)"), allTimes},
		"keys of bytes":         {timedDDL("`unique_key` varchar(190)", "`unique_key` binary(16)"), allTimes},
		"keys by target":        {timedDDL("`unique_key` (`unique_key`)", "`u` (`target`, `unique_key`)"), allTimes},
		"indexes the other way": {timedDDL("`due` (`status`, `target`, `run_at`)", "`x` (`target`, `status`, `run_at`, `id`)", "`first` (`status`, `target`, `priority` DESC, `id`)", "`y` (`target`, `status`, `priority` DESC)"), allTimes},
		"names in capitals":     {timedDDL("`run_at`", "`Run_At`"), allTimes},
		"the application's":     {strange, nil},
		"some of them":          {strange, store.Uses{"planned_at", "schedule", "timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newDatabase(t, c.table).config()
			config.Uses = c.uses
			if findings, err := open(t, config).Findings(t.Context(), []string{"a"}); err != nil || len(findings) > 0 {
				t.Errorf("found %q, %v", findings, err)
			}
		})
	}
}
