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
		{name: "ids not unique", old: "id INTEGER PRIMARY KEY AUTOINCREMENT", now: "id INTEGER", severity: store.Warning, want: "two rows from having the same id", paste: true},
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
				if err != nil {
					t.Fatal(err)
				}
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
		filepath.Join(dir, "nowhere", "jobs.db"): "there is no folder " + filepath.Join(dir, "nowhere") + "; mkdir",
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
