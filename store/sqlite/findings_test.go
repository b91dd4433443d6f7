package sqlite_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/sqlite"
	"jobd/store/storetest/must"
)

// usual is a jobs table as jobd makes it.
const usual = `CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, time_created INTEGER NOT NULL,
	time_started INTEGER NOT NULL DEFAULT 0, time_finished INTEGER NOT NULL DEFAULT 0,
	status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting','manual','accepted','running','done','ignored')),
	result TEXT, return_code INTEGER, sig TEXT, stdout TEXT, stderr TEXT);
	CREATE INDEX jobs_status_target_idx ON jobs (status, target, id);`

// Each finding about the table comes with what mends it, which is pasted where it is a statement.
func TestFindingsAndTheirRemedies(t *testing.T) {
	t.Parallel()
	const row = "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', 5)"
	cases := []struct {
		name     string
		old, now string // in the table
		bare     bool   // without its index
		more     string
		config   sqlite.Config
		severity store.Severity
		want     string // "": nothing is found
		paste    bool
		left     string // what is found behind the remedy
	}{
		{name: "as usual"},
		{name: "the index otherwise", old: "(status, target, id)", now: "(target, status)"},
		{name: "dates as types", old: "time_started INTEGER", now: "time_started DATETIME"},
		{name: "columns missing", old: "result TEXT,", severity: store.Fault, want: "no column result", paste: true},
		{
			name: "status missing", old: "status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting','manual','accepted','running','done','ignored')),", now: "x TEXT, ",
			bare: true, severity: store.Fault, want: "no column status", paste: true, left: "no index",
		},
		{name: "the claim column missing", config: sqlite.Config{ClaimColumn: "ran_by"}, severity: store.Fault, want: "no column ran_by", paste: true},
		{name: "the claim column another's", config: sqlite.Config{ClaimColumn: "Target"}, severity: store.Fault, want: "column target holds something else"},
		{name: "id missing", old: "id INTEGER PRIMARY KEY AUTOINCREMENT", now: "number", bare: true, severity: store.Fault, want: "no column id"},
		{name: "a word missing", old: ",'ignored'", severity: store.Fault, want: "must hold ignored"},
		{name: "a status with words in any case", old: "status TEXT", now: "status TEXT COLLATE NOCASE", severity: store.Fault, want: "column status takes other texts for the same word"},
		{name: "a status with blanks behind words", old: "status TEXT", now: "status TEXT COLLATE RTRIM", severity: store.Fault, want: "column status takes other texts for the same word"},
		{name: "no index", more: "DROP INDEX jobs_status_target_idx", severity: store.Fault, want: "no index on (status, target, id)", paste: true},
		{name: "an index of some rows", more: "DROP INDEX jobs_status_target_idx; CREATE INDEX x ON jobs (status, target) WHERE id > 5", severity: store.Fault, want: "no index on (status, target, id)", paste: true},
		{name: "ids not unique", old: "id INTEGER PRIMARY KEY AUTOINCREMENT", now: "id INTEGER", severity: store.Warning, want: "two rows may have the same id", paste: true},
		{name: "ids unique otherwise", old: "id INTEGER PRIMARY KEY AUTOINCREMENT", now: "id BIGINT UNIQUE"},
		{name: "a generated column", old: "time_started INTEGER NOT NULL DEFAULT 0", now: "time_started INTEGER AS (time_created + 1) STORED", severity: store.Fault, want: "column time_started (INTEGER) is generated"},
		{name: "a view", more: "CREATE VIEW seen AS SELECT * FROM jobs", config: sqlite.Config{Table: "seen"}, severity: store.Fault, want: "it is a view"},
		{name: "no column for workloads", config: sqlite.Config{Submits: true}, severity: store.Fault, want: "no column workload", paste: true},
		{
			name: "ids that inserts do not tell", old: "id INTEGER PRIMARY KEY AUTOINCREMENT", now: "id BIGINT UNIQUE", more: "ALTER TABLE jobs ADD COLUMN workload BLOB",
			config: sqlite.Config{Submits: true}, severity: store.Fault, want: "its id is not declared INTEGER PRIMARY KEY",
		},
		{name: "another table", config: sqlite.Config{Table: "jbos"}, severity: store.Fault, want: "no such table"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.config.Path = filepath.Join(t.TempDir(), "jobs.db")
			db := application(t, c.config.Path)
			ddl := usual
			if c.old != "" {
				ddl = strings.Replace(usual, c.old, c.now, 1)
			}
			if c.bare {
				ddl, _, _ = strings.Cut(ddl, "CREATE INDEX")
			}
			exec(t, db, ddl+c.more)
			if c.now != "number" {
				exec(t, db, row)
			}
			var written bytes.Buffer
			c.config.Logger = slog.New(slog.NewTextHandler(&written, nil))
			inspect := func() []store.Finding {
				t.Helper()
				findings, _, err := sqlite.Glance(t.Context(), c.config, []string{"a"})
				must.Do(t, err)
				return findings
			}
			found := inspect()
			checked := open(t, c.config).Check(t.Context())
			if (checked != nil) != (c.want != "" && c.severity == store.Fault && !strings.Contains(c.want, "no index")) {
				t.Errorf("Check: %v", checked)
			}
			if c.want == "" {
				if len(found) > 0 {
					t.Errorf("found %q, want nothing", found)
				}
				return
			}
			if len(found) != 1 || !strings.Contains(found[0].What, c.want) || found[0].Severity != c.severity {
				t.Fatalf("found %q, want one %v: %s", found, c.severity, c.want)
			}
			if checked == nil && !strings.Contains(written.String(), c.want) {
				t.Errorf("the log does not tell: %s", written.String())
			}
			if !c.paste {
				return
			}
			exec(t, db, found[0].Remedy)
			left := inspect()
			if c.left == "" && len(left) > 0 || c.left != "" && (len(left) != 1 || !strings.Contains(left[0].What, c.left)) {
				t.Errorf("behind %s: %q", found[0].Remedy, left)
			}
			var status string
			if err := db.QueryRow("SELECT status FROM jobs WHERE id = 7").Scan(&status); err != nil || (status == "ignored") != (c.left != "") {
				t.Errorf("the row has status %s, %v", status, err)
			}
		})
	}
}

// Glance makes no file, and tells why none could be made.
func TestGlanceAtTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fresh := filepath.Join(dir, "jobs.db")
	if found, isNew, err := sqlite.Glance(t.Context(), sqlite.Config{Path: fresh}, []string{"a"}); err != nil || len(found) > 0 || !isNew {
		t.Errorf("a new file: %q, %v", found, err)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "nowhere", "jobs.db"): "there is not a folder " + filepath.Join(dir, "nowhere") + "; mkdir",
		dir:                                      "it is a folder; name a file in it",
	} {
		found, _, err := sqlite.Glance(t.Context(), sqlite.Config{Path: path}, nil)
		if err != nil || len(found) != 1 || found[0].Severity != store.Fault || !strings.Contains(found[0].String(), want) {
			t.Errorf("%s: %q, %v; want: %s", path, found, err, want)
		}
		if err := open(t, sqlite.Config{Path: path}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Check: %v; want: %s", path, err, want)
		}
	}
}

// What use_columns names and the table lacks ends the start, with statements to paste, behind which
// nothing is left to say. Values that are there stay.
func TestFindingsOfOptionalColumns(t *testing.T) {
	t.Parallel()
	const (
		words  = "'ignored')"
		stderr = "stderr TEXT)"
		row    = "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', 5);"
		due    = "CREATE INDEX due ON jobs (status, target, run_at);"
	)
	with := func(columns string) []string {
		return []string{words, "'ignored','delayed')", stderr, "stderr TEXT, " + columns + ")"}
	}
	moments := store.Uses{"run_at"}
	for _, c := range []struct {
		name            string
		uses            store.Uses
		replace         []string // in the table
		more            string
		want            []string
		columns, values string // of row 7, behind it
	}{
		{
			name: "nothing there", uses: store.TimeColumns(), replace: []string{words, "'ignored','delayed')"}, more: "CREATE INDEX note ON jobs (stdout); CREATE TRIGGER sees AFTER UPDATE ON jobs BEGIN SELECT 1; END;",
			want: []string{
				"no column run_at", "no column planned_at", "no column unique_key",
			},
			columns: "run_at || planned_at || attempts || priority || (unique_key IS NULL)", values: "00001",
		},
		{name: "as it should be", uses: moments, replace: with("run_at BIGINT NOT NULL DEFAULT 0"), more: due},
		{name: "the index otherwise", uses: moments, replace: with("run_at INTEGER NOT NULL DEFAULT 0"), more: "CREATE INDEX due ON jobs (target, status, run_at);"},
		{name: "an index of some rows", uses: moments, replace: with("run_at INTEGER NOT NULL DEFAULT 0"), more: "CREATE INDEX some ON jobs (status, target, run_at) WHERE run_at > 0;", want: []string{"no index on"}, columns: "run_at", values: "0"},
		{name: "an index in falling order", uses: moments, replace: with("run_at INTEGER NOT NULL DEFAULT 0"), more: "CREATE INDEX due ON jobs (status, target, run_at DESC);", want: []string{"no index on"}, columns: "run_at", values: "0"},
		{name: "run_at a DATETIME", uses: moments, replace: with("run_at DATETIME DEFAULT '2023-11-14 22:13:20'"), more: due, want: []string{"column run_at (DATETIME) must be a whole number"}, columns: "run_at || former_run_at", values: "02023-11-14 22:13:20"},
		{name: "run_at NULL", uses: moments, replace: with("run_at INTEGER"), more: due, want: []string{"column run_at (INTEGER) must never be NULL"}, columns: "run_at", values: "0"},
		{name: "attempts a text", uses: append(moments, "attempts"), replace: with("run_at INTEGER NOT NULL DEFAULT 0, attempts TEXT DEFAULT 'many'"), more: due, want: []string{"column attempts (TEXT) must be a whole number: use_columns names it"}, columns: "attempts || former_attempts", values: "0many"},
		{name: "schedule a number", uses: append(moments, "planned_at", "attempts", "schedule"), replace: with("run_at INT NOT NULL DEFAULT 0, planned_at INT NOT NULL DEFAULT 0, attempts SMALLINT, schedule REAL DEFAULT 5"), more: due, want: []string{"column schedule (REAL) must be a text"}, columns: "former_schedule", values: "5"},
		{name: "priority ascending", uses: store.Uses{"priority"}, replace: with("priority TINYINT NOT NULL DEFAULT 0"), more: "CREATE INDEX p ON jobs (status, target, priority, id);", want: []string{"no index on (status, target, priority DESC, id)"}, columns: "priority", values: "0"},
		{name: "a key that takes no NULL", uses: store.Uses{"unique_key"}, replace: with("unique_key TEXT NOT NULL DEFAULT ''"), more: "CREATE UNIQUE INDEX u ON jobs (unique_key, id);", want: []string{"column unique_key (TEXT) must take NULL"}, columns: "unique_key IS NULL", values: "1"},
		{name: "keys that are not unique", uses: store.Uses{"unique_key"}, replace: with("unique_key TEXT"), want: []string{"no index keeps the values of unique_key unique"}, columns: "unique_key IS NULL", values: "1"},
		{name: "run_at generated", uses: moments, replace: with("run_at INTEGER NOT NULL AS (time_created) STORED"), more: due, want: []string{"column run_at (INTEGER) is generated"}, columns: "run_at", values: "0"},
		{name: "an application's own", uses: nil, replace: []string{stderr, "stderr TEXT, run_at DATETIME, attempts TEXT, unique_key TEXT NOT NULL DEFAULT '')"}},
		{name: "no CHECK", uses: moments, replace: []string{" CHECK (status IN ('waiting','manual','accepted','running','done','ignored'))", "", stderr, "stderr TEXT, run_at INTEGER NOT NULL DEFAULT 0)"}, more: due},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := sqlite.Config{Path: filepath.Join(t.TempDir(), "jobs.db"), Uses: c.uses}
			db := application(t, config.Path)
			db.SetMaxOpenConns(1)
			exec(t, db, strings.NewReplacer(c.replace...).Replace(usual)+row+c.more)
			exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (90, 'a', 5); DELETE FROM jobs WHERE id = 90")
			inspect := func() []store.Finding {
				t.Helper()
				findings, _, err := sqlite.Glance(t.Context(), config, nil)
				must.Do(t, err)
				return findings
			}
			for round := 0; ; round++ {
				found, checked := inspect(), open(t, config).Check(t.Context())
				if len(found) == 0 && checked == nil && (round > 0 || len(c.want) == 0) {
					break
				}
				if round > 2 || len(c.want) == 0 {
					t.Fatalf("found %q, %v; want nothing", found, checked)
				}
				var said strings.Builder
				for _, one := range found {
					said.WriteString(one.What + "\n")
					exec(t, db, one.Remedy)
				}
				for _, want := range c.want {
					if round == 0 && !strings.Contains(said.String(), want) {
						t.Errorf("found %q, want %q in it", said.String(), want)
					}
				}
			}
			if len(c.want) == 0 {
				return
			}
			var value, status string
			if err := db.QueryRow("SELECT status, "+c.columns+" FROM jobs WHERE id = 7").Scan(&status, &value); err != nil || value != c.values || status != "waiting" {
				t.Errorf("the row is %s with %q, %v; want waiting with %q", status, value, err, c.values)
			}
			exec(t, db, "INSERT INTO jobs (target, time_created) VALUES ('a', 5)")
			var id int64
			if err := db.QueryRow("SELECT MAX(id) FROM jobs").Scan(&id); err != nil || id != 91 {
				t.Errorf("the next row is %d, %v; want that no id is given out again", id, err)
			}
		})
	}
}

// An index that somebody drops under way ends nothing.
func TestAnIndexThatIsDroppedUnderWay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path, Uses: store.TimeColumns()}))
	db := application(t, path)
	exec(t, db, "INSERT INTO jobs (target, time_created, status, run_at) VALUES ('a', 1, 'delayed', 1)")
	next := func() error {
		_, err := table.NextDue(t.Context(), []string{"a"}, nil)
		return err
	}
	must.Do(t, next())
	exec(t, db, "DROP INDEX jobs_status_target_run_at_idx; DROP INDEX jobs_status_target_priority_idx")
	if err := next(); store.IsAway(err) {
		t.Errorf("the table counts as away: %v", err)
	}
	if err := next(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}
