package mysql_test

import (
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// about are the findings whose text has a word.
func about(findings []store.Finding, word string) (some []store.Finding) {
	for _, finding := range findings {
		if strings.Contains(finding.What, word) {
			some = append(some, finding)
		}
	}
	return some
}

// Each finding comes with a statement that can be pasted, and that mends it.
func TestFindingsAndTheirRemedies(t *testing.T) {
	t.Parallel()
	const (
		row      = "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', 1700000000)"
		started  = "`time_started` int(10) UNSIGNED NOT NULL DEFAULT 0"
		finished = "`time_finished` int(10) UNSIGNED NOT NULL DEFAULT 0"
		code     = "`return_code` tinyint(3) UNSIGNED DEFAULT NULL"
		key      = ",\n  KEY `status_target_idx` (`status`, `target`, `id`)"
		words    = "enum('waiting','manual','accepted','running','done','ignored')"
		own      = "`ran_by` char(10) DEFAULT NULL, `stdout` mediumtext"
	)
	fault, warning := store.Fault, store.Warning
	ownColumn := func(c *mysql.Config) { c.ClaimColumn = "ran_by" }
	cases := []struct {
		name     string
		table    string
		change   func(*mysql.Config)
		rows     string // before the remedy
		severity store.Severity
		want     string // what is said
		columns  string // of row 7, behind the remedy
		values   string
	}{
		{"a column missing", replaced("`stderr` mediumtext DEFAULT NULL,", ""), nil, row, fault, "no column stderr", "status stderr", "waiting -"},
		{
			"status missing: what is there is not run", replaced("`status` "+words+" NOT NULL DEFAULT 'waiting',", "", key, ""), nil, row, fault,
			"no column status", "status", "ignored",
		},
		{"the claim column missing", dbserver.JobsTable, ownColumn, row, fault, "no column ran_by", "ran_by", "-"},
		{"MyISAM", replaced("InnoDB", "MyISAM"), nil, row, fault, "engine is MyISAM", "status", "waiting"},
		{"time_started a DATETIME", replaced(started, "`time_started` datetime DEFAULT NULL"), nil, row, fault, "column time_started (datetime) must be a whole number", "time_started former_time_started", "0 -"},
		{"time_finished a TIMESTAMP", replaced(finished, "`time_finished` timestamp NULL DEFAULT NULL"), nil, row, fault, "column time_finished (timestamp) must be", "time_finished", "0"},
		{"time_started too short a text", replaced(started, "`time_started` varchar(5) NOT NULL DEFAULT 'never'"), nil, row, fault, "column time_started (varchar(5)) must be", "time_started former_time_started", "0 never"},
		{"time_started too small a number", replaced(started, "`time_started` mediumint NOT NULL DEFAULT 5"), nil, row, fault, "column time_started (mediumint", "time_started", "5"},
		{"time_started too small a decimal", replaced(started, "`time_started` decimal(9,2) NOT NULL DEFAULT 5"), nil, row, fault, "column time_started (decimal(9,2))", "time_started", "5"},
		{"time_started a float", replaced(started, "`time_started` float NOT NULL DEFAULT 0"), nil, row, fault, "column time_started (float) must be a whole number", "time_started", "0"},
		{"time_created a DATETIME", replaced("`time_created` int(10) UNSIGNED NOT NULL", "`time_created` datetime NOT NULL"), nil, "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', FROM_UNIXTIME(1700000000))", warning, "it counts as unknown", "time_created former_time_created", "0 2023-11-14 22:13:20"},
		{"status lacks a word", replaced(",'ignored'", "", "'manual'", "'it''s','manual'"), nil, row, fault, "must hold ignored", "status", "waiting"},
		{"status a text", replaced(words, "varchar(20)"), nil, row, fault, "must be an ENUM of waiting, manual, accepted, running, done, ignored", "status", "waiting"},
		{"result lacks a word", replaced("enum('ok','fail')", "enum('ok')"), nil, row, fault, "must hold fail", "result", "-"},
		{"the token too long for sig", replaced("`sig` char(10)", "`sig` char(7)"), nil, row, fault, "column sig (char(7)) must be a text of 10 characters", "sig", "-"},
		{"sig an ENUM", replaced("`sig` char(10)", "`sig` enum('SIGTERM')"), nil, row + "; UPDATE jobs SET sig = 'SIGTERM'", fault, "claims write their tokens into it", "sig former_sig", "- SIGTERM"},
		{"the name too long for a claim column", replaced("`stdout` mediumtext", own), func(c *mysql.Config) { c.ClaimColumn, c.Worker = "ran_by", "a-long-name.example" }, row, warning, "must be a text of 19 characters", "ran_by", "-"},
		{"sig short, where it is not the claim column", replaced("`stdout` mediumtext", own, "`sig` char(10)", "`sig` char(5)"), ownColumn, row, warning, "names of signals are cut", "sig", "-"},
		{"return_code signed", replaced(code, "`return_code` tinyint DEFAULT NULL"), nil, row, warning, "must be a whole number, up to 255", "return_code", "-"},
		{"return_code NOT NULL", replaced(code, "`return_code` tinyint UNSIGNED NOT NULL DEFAULT 3"), nil, row, warning, "must take NULL", "return_code", "3"},
		{"return_code a date", replaced(code, "`return_code` varchar(2) DEFAULT NULL"), nil, row, warning, "must be a whole number, up to 255", "return_code former_return_code", "- -"},
		{"stdout short", replaced("`stdout` mediumtext DEFAULT NULL", "`stdout` text NOT NULL DEFAULT ('x')"), nil, row, warning, "column stdout (text) must be a text of 1048576", "stdout", "x"},
		{"stdout a short VARCHAR", replaced("`stdout` mediumtext DEFAULT NULL", "`stdout` varchar(300) NOT NULL DEFAULT 'x'"), nil, row, warning, "column stdout (varchar(300)) must be a text", "stdout", "x"},
		{"stderr a short blob", replaced("`stderr` mediumtext", "`stderr` blob"), nil, row, warning, "column stderr (blob) must be a text", "stderr", "-"},
		{"stderr a number", replaced("`stderr` mediumtext", "`stderr` int"), nil, row, warning, "column stderr (int", "stderr", "-"},
		{"a generated column that is written", replaced(started, "`time_started` int(10) UNSIGNED AS (`time_created` + 1) STORED"), nil, row, fault, "is generated", "time_started former_time_started", "0 1700000001"},
		{"a virtual one", replaced(started, "`time_started` int(10) UNSIGNED AS (`time_created` + 1) VIRTUAL"), nil, row, fault, "is generated", "time_started former_time_started", "0 1700000001"},
		{"no index for claims", replaced(key, ",\n  KEY `status_target_idx` (`status`)"), nil, row, fault, "no index on (status, target", "status", "waiting"},
		{"no index for claims, target a text", replaced(key, "", "`target` char(16)", "`target` text"), nil, row, fault, "no index on (status, target", "status", "waiting"},
		{"no index for ids", replaced("NOT NULL AUTO_INCREMENT", "NOT NULL", "PRIMARY KEY (`id`),", ""), nil, row, warning, "two rows may have the same id", "status", "waiting"},
		{"ids not unique", replaced("PRIMARY KEY (`id`)", "KEY (`id`)"), nil, row, warning, "two rows may have the same id", "status", "waiting"},
		{"target a number", replaced("`target` char(16)", "`target` int"), nil, "INSERT INTO jobs (id, target, time_created) VALUES (7, 5, 1)", warning, "column target (int", "former_target", "5"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, c.table)
			db.exec(t, c.rows)
			config := db.config()
			config.MaxOutput = 1 << 20
			if c.change != nil {
				c.change(&config)
			}
			inspect := func() []store.Finding {
				t.Helper()
				table := open(t, config)
				findings := must.Get(table.Findings(t.Context(), nil))(t)
				if isIndex := strings.Contains(c.want, "no index"); len(about(findings, c.want)) > 0 && (table.Check(t.Context()) != nil) != (c.severity == store.Fault && !isIndex) {
					t.Errorf("Check: %v, beside a finding that is a %v", table.Check(t.Context()), c.severity)
				}
				return findings
			}
			before := inspect()
			found := about(before, c.want)
			if len(found) != 1 || len(before) != 1 && !strings.Contains(c.want, "no column status") || found[0].Severity != c.severity || found[0].Where != "table `"+db.name+"`.`jobs`" {
				t.Fatalf("found %q, want one %v about: %s", before, c.severity, c.want)
			}
			t.Log(found[0])
			db.exec(t, "SET SESSION sql_mode='STRICT_ALL_TABLES'; "+found[0].Remedy)
			after := inspect()
			if strings.Contains(c.want, "no column status") || strings.Contains(c.want, "column target") {
				after = about(after, c.want) // the index on it is a matter of its own
			}
			if len(after) > 0 {
				t.Errorf("behind %s: %q", found[0].Remedy, after)
			}
			db.expect(t, 7, c.columns, c.values)
		})
	}
}

// What must work, by the table's specification, is worth no word.
func TestNoFindings(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{
		"as usual":             dbserver.JobsTable,
		"bigint ids":           replaced("`id` int(10)", "`id` bigint(20)"),
		"signed ids":           replaced("`id` int(10) UNSIGNED", "`id` int"),
		"target longer":        replaced("`target` char(16)", "`target` varchar(200)"),
		"target an ENUM":       replaced("`target` char(16)", "`target` enum('a','b')"),
		"another index":        replaced("KEY `status_target_idx` (`status`, `target`, `id`)", "KEY `x` (`target`, `status`, `id`)"),
		"utf8mb4":              replaced("CHARSET=utf8", "CHARSET=utf8mb4"),
		"outputs NOT NULL":     replaced("`stdout` mediumtext DEFAULT NULL", "`stdout` longtext NOT NULL DEFAULT ('')", "`stderr` mediumtext DEFAULT NULL", "`stderr` longtext NOT NULL DEFAULT ('')"),
		"times of 64 bits":     replaced("`time_started` int(10) UNSIGNED", "`time_started` bigint", "`time_finished` int(10) UNSIGNED", "`time_finished` double"),
		"columns beside":       replaced("`stdout` mediumtext", "`user_id` int NOT NULL DEFAULT 0, `attempts` datetime, `stdout` mediumtext"),
		"a generated one read": replaced("`time_created` int(10) UNSIGNED NOT NULL", "`x` int UNSIGNED NOT NULL DEFAULT 0, `time_created` int(10) UNSIGNED AS (`x`) STORED"),
		"nullable":             nullable(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newDatabase(t, table).config()
			config.MaxOutput = 1 << 20
			findings, err := open(t, config).Findings(t.Context(), []string{"a", "b"})
			if err != nil || len(findings) > 0 {
				t.Errorf("found %q, %v", findings, err)
			}
		})
	}
}

// All that is wrong is told at once, also by the error that ends a start.
func TestFindingsAtOnce(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, replaced("InnoDB", "MyISAM", "`stderr` mediumtext DEFAULT NULL,", "", "`sig` char(10)", "`sig` char(3)", "`stdout` mediumtext", "`stdout` text"))
	config := db.config()
	config.MaxOutput = 1 << 20
	findings, err := open(t, config).Findings(t.Context(), []string{"a"})
	if err != nil || len(findings) != 4 || findings[2].Severity != store.Fault || findings[3].Severity != store.Warning {
		t.Fatalf("found %q, %v; want three faults, then a warning", findings, err)
	}
	problem := open(t, config).Check(t.Context())
	for _, fault := range findings[:3] {
		if !unusable(problem) || !strings.Contains(problem.Error(), fault.What) || !strings.Contains(problem.Error(), fault.Remedy) {
			t.Errorf("Check: %v; want to hear of: %s", problem, fault)
		}
	}
}

// Targets that can't be served are findings, and what mends them mends all of them.
func TestFindingsOfTargets(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", 300)
	for name, c := range map[string]struct {
		table   string
		targets []string
		want    []string
		left    int // behind the remedies
	}{
		"too long":          {dbserver.JobsTable, []string{"a", "twenty-two characters!", "seventeen letters"}, []string{"17 characters", "22 characters"}, 0},
		"longer than CHAR":  {replaced(",\n  KEY `status_target_idx` (`status`, `target`, `id`)", ",\n  KEY `x` (`status`, `target`(16))"), []string{long}, []string{"300 characters"}, 0},
		"other characters":  {replaced("CHARSET=utf8", "CHARSET=latin1"), []string{"дом"}, []string{"character set latin1"}, 0},
		"none of an ENUM":   {replaced("`target` char(16)", "`target` enum('a','it''s')"), []string{"a", "it's", "c'd", "e"}, []string{"none of those", "none of those"}, 0},
		"two that are one":  {dbserver.JobsTable, []string{"a", "A"}, []string{`takes it for "a"`}, 1},
		"one ends in blank": {dbserver.JobsTable, []string{"a", "a "}, []string{`takes it for "a"`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, c.table)
			table := open(t, db.config())
			findings, err := table.Findings(t.Context(), c.targets)
			if err != nil || len(findings) != len(c.want) {
				t.Fatalf("found %q, %v", findings, err)
			}
			for i, finding := range findings {
				if !strings.Contains(finding.What, c.want[min(i, len(c.want)-1)]) && !strings.Contains(finding.What, c.want[0]) || finding.Severity != store.Fault {
					t.Errorf("%d: %s", i, finding)
				}
				if finding.Remedy != "" {
					db.exec(t, finding.Remedy)
				}
			}
			if left, err := open(t, db.config()).Findings(t.Context(), c.targets); err != nil || len(left) != c.left {
				t.Errorf("behind the remedies: %q, %v", left, err)
			}
		})
	}
}

// A view can't be claimed from.
func TestFindingsOfViews(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	db.exec(t, "CREATE VIEW seen AS SELECT * FROM jobs; GRANT SELECT, UPDATE ON seen TO "+db.account.User+"@'%', "+db.account.User+"@localhost")
	config := db.config()
	config.Table = "seen"
	findings, err := open(t, config).Findings(t.Context(), nil)
	if got := about(findings, "it is a view"); err != nil || len(got) != 1 || got[0].Severity != store.Fault {
		t.Errorf("a view: %q, %v", findings, err)
	}
}

// A column of ids that are none is a fault, a packet that is too small a warning.
func TestFindingsWithoutAStatement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server *dbserver.Server
		table  string
		want   string
		how    store.Severity
	}{
		"ids of text": {
			shared, replaced("`id` int(10) UNSIGNED NOT NULL AUTO_INCREMENT", "`id` varchar(20) NOT NULL"),
			"column id (varchar(20)) must be a whole number", store.Fault,
		},
		"a small packet": {newServer(t, "--max-allowed-packet=1M"), dbserver.JobsTable, "the server's max_allowed_packet (1048576 bytes) is too small for stdout and stderr of max_output_buffer (1048576 bytes) each", store.Warning},
	} {
		config := newDatabaseOn(t, c.server, c.table).config()
		config.MaxOutput = 1 << 20
		findings, err := open(t, config).Findings(t.Context(), []string{"a"})
		if err != nil || len(findings) != 1 || !strings.Contains(findings[0].What, c.want) || findings[0].Severity != c.how || findings[0].Remedy == "" {
			t.Errorf("%s: %q, %v", name, findings, err)
		}
	}
}

// A column is judged once, whatever the case in which claim_column names it.
func TestFindingsOfAColumnOnce(t *testing.T) {
	t.Parallel()
	config := newDatabase(t, replaced("`sig` char(10)", "`sig` char(3)")).config()
	config.ClaimColumn = "SIG"
	if findings, err := open(t, config).Findings(t.Context(), nil); err != nil || len(findings) != 1 {
		t.Errorf("found %q, %v", findings, err)
	}
}
