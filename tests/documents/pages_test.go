package documents

import (
	"database/sql"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// allPages reads README.md and every page of docs, by its path from the repository's top.
func allPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"README.md": read(t, filepath.Join(harness.Top(), "README.md"))}
	err := filepath.WalkDir(docs(), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			relative, _ := filepath.Rel(harness.Top(), name) // it begins with it
			pages[relative] = read(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// block is a fenced block of a page.
type block struct {
	page     string
	line     int // of its first line, counted from 1
	language string
	text     string
}

// blocks are the fenced blocks of all pages, in their order.
func blocks(t *testing.T) []block {
	t.Helper()
	var found []block
	for page, text := range allPages(t) {
		var open *block
		outer := "" // what stands before its fence, and so before all of it
		for i, line := range strings.Split(text, "\n") {
			fence := strings.TrimLeft(line, " ")
			indent := line[:len(line)-len(fence)]
			language, isFence := strings.CutPrefix(fence, "```")
			switch {
			case isFence && open == nil:
				open, outer = &block{page: page, line: i + 2, language: language}, indent
			case isFence:
				found = append(found, *open)
				open = nil
			case open != nil:
				open.text += strings.TrimPrefix(line, outer) + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s:%d: the block does not end", page, open.line)
		}
	}
	if len(found) == 0 {
		t.Fatal("no block was found: this test looks for the wrong thing")
	}
	return found
}

// aboutTime is what docs/time.md adds to a table, and a column of the application's own.
const aboutTime = `ALTER TABLE jobs
  MODIFY status enum('waiting','manual','accepted','running','done','ignored','delayed') NOT NULL DEFAULT 'waiting',
  ADD run_at int UNSIGNED NOT NULL DEFAULT 0, ADD planned_at int UNSIGNED NOT NULL DEFAULT 0,
  ADD schedule varchar(64) DEFAULT NULL, ADD time_zone varchar(64) DEFAULT NULL,
  ADD attempts smallint UNSIGNED NOT NULL DEFAULT 0, ADD max_attempts smallint UNSIGNED DEFAULT NULL,
  ADD timeout int UNSIGNED DEFAULT NULL, ADD priority tinyint NOT NULL DEFAULT 0,
  ADD unique_key varchar(190) DEFAULT NULL UNIQUE, ADD task varchar(64) DEFAULT NULL`

// inFile is the table as jobd makes it in a file of SQLite, less what is about time.
const inFile = `CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, time_created INTEGER NOT NULL,
  time_started INTEGER NOT NULL DEFAULT 0, time_finished INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT 'waiting',
  result TEXT, return_code INTEGER, sig TEXT, stdout TEXT, stderr TEXT)`

// Statements of a page are taken by a database: MariaDB with the table as it is at least or with all
// that jobd knows, or SQLite. Each page begins with a new database, called application as in the pages,
// in which its blocks follow each other. Those of README.md are run by tests/walk.
func TestStatementsOfPagesAreTaken(t *testing.T) {
	t.Parallel()
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		check.Do(t, server.Close())
	})
	pages := map[string][]block{}
	for _, b := range blocks(t) {
		if b.language == "sql" && b.page != "README.md" {
			pages[b.page] = append(pages[b.page], b)
		}
	}
	for page, statements := range pages {
		refusals := make([][]string, len(statements))
		for _, table := range []string{dbserver.JobsTable, dbserver.JobsTable + ";" + aboutTime} {
			take := onServer(t, server, table)
			for i, b := range statements {
				refusals[i] = append(refusals[i], take(b.text)...)
			}
		}
		for _, table := range []string{"", inFile} {
			take := inAFile(t, table)
			for i, b := range statements {
				refusals[i] = append(refusals[i], take(b.text)...)
			}
		}
		for i, b := range statements {
			if len(refusals[i]) == 4 {
				t.Errorf("%s:%d: no database takes this:\n%s", page, b.line, strings.Join(refusals[i], "\n"))
			}
		}
	}
	if len(pages) == 0 {
		t.Error("no statement was found: this test looks for the wrong thing")
	}
}

// newDatabase empties the server of what statements of another page have left.
const newDatabase = `DROP DATABASE IF EXISTS application; CREATE DATABASE application;
DELETE FROM mysql.global_priv WHERE User NOT IN ('root', 'mariadb.sys', 'mysql'); DELETE FROM mysql.db; DELETE FROM mysql.tables_priv;
DELETE FROM mysql.columns_priv; FLUSH PRIVILEGES; USE application; `

// onServer runs statements as a person does who gives them to the server's own client, and gives why it
// refuses them.
func onServer(t *testing.T, server *dbserver.Server, table string) func(string) []string {
	t.Helper()
	client := func(text string, args ...string) []string {
		cmd := exec.Command("mariadb", append([]string{"--no-defaults", "-u", "root", "-S", server.Socket()}, args...)...)
		cmd.Stdin = strings.NewReader(text)
		if output, err := cmd.CombinedOutput(); err != nil {
			return []string{"MariaDB: " + string(output)}
		}
		return nil
	}
	fresh := newDatabase
	if !server.IsMariaDB() {
		fresh = strings.NewReplacer("mysql.global_priv", "mysql.user", "'mysql')", "'mysql.sys', 'mysql.session', 'mysql.infoschema')").Replace(fresh)
	}
	if refused := client(fresh + table); refused != nil {
		t.Fatal(refused)
	}
	return func(text string) []string { return client(text, "application") }
}

// inAFile runs statements in a database of SQLite.
func inAFile(t *testing.T, table string) func(string) []string {
	t.Helper()
	db := must.Get(sql.Open("sqlite", ":memory:"))(t)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	must.Get(db.ExecContext(t.Context(), table))(t)
	return func(text string) []string {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			return []string{"SQLite: " + err.Error()}
		}
		return nil
	}
}

var (
	// helped finds a flag in a help, with its meaning, and described a key in a table's row, with its default.
	helped    = regexp.MustCompile(`(?m)^  --(\S+)\s+(.*(?:\n {5,}.*)*)`)
	described = regexp.MustCompile("(?m)^\\| (?:`\\[targets\\]` )?`([^`]+)` \\| (.*?) \\|")
	byDefault = regexp.MustCompile(`\(default: ([^)]*)\)`)
	// sharing finds the sentence of a section whose further keys are those of other tables, and shared the headings of these.
	sharing = regexp.MustCompile("(?m)^The keys of .* are those of `([a-z-]+)`\\.$")
	shared  = regexp.MustCompile(`\]\(#(\w+)\)`)
)

// docs/configuration.md has a table's row for each key that a program's help lists, with the same
// default, and for no other.
func TestKeysOfThePageAreThoseOfTheHelp(t *testing.T) {
	t.Parallel()
	page := read(t, docs("configuration.md"))
	for _, program := range []string{"jobd", "jobd-master", "jobctl"} {
		section := below(page, "## "+program)
		if sentence := sharing.FindStringSubmatch(section); sentence != nil {
			theirs := below(page, "## "+sentence[1])
			for _, heading := range shared.FindAllStringSubmatch(sentence[0], -1) {
				section += below(theirs, "### "+strings.ToUpper(heading[1][:1])+heading[1][1:])
			}
		}
		defaults := map[string]string{}
		for _, row := range described.FindAllStringSubmatch(section, -1) {
			defaults[row[1]] = row[2]
		}
		output := must.Get(exec.Command(harness.Program(t, program), "--help").Output())(t)
		known := map[string]bool{"process": true, "fork": true, "pool": true} // a table of the modes
		for _, flag := range helped.FindAllStringSubmatch(string(output), -1) {
			switch flag[1] {
			case "config", "check", "help", "version":
				continue
			}
			key := strings.TrimPrefix(strings.TrimPrefix(flag[1], "targets."), "target.NAME.")
			key = strings.ReplaceAll(key, "-", "_")
			known[key] = true
			want := byDefault.FindStringSubmatch(strings.Join(strings.Fields(flag[2]), " "))
			if got, has := defaults[key]; !has {
				t.Errorf("docs/configuration.md has no row for the key %s of %s", key, program)
			} else if want != nil && got != want[1] {
				t.Errorf("docs/configuration.md: the default of %s of %s is %s, not %s", key, program, want[1], got)
			}
		}
		if len(known) < 10 {
			t.Errorf("%s --help lists %d keys only: this test looks for the wrong thing", program, len(known))
		}
		for key := range defaults {
			if !known[key] {
				t.Errorf("docs/configuration.md has a row for %s, which %s does not know", key, program)
			}
		}
	}
}

// below is what stands below a heading, to the next one of its level, or above.
func below(page, heading string) string {
	_, section, _ := strings.Cut(page, "\n"+heading+"\n")
	level, _, _ := strings.Cut(heading, " ")
	for ; len(level) > 1; level = level[1:] {
		section, _, _ = strings.Cut(section, "\n"+level+" ")
	}
	return section
}
