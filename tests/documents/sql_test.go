package documents

import (
	"context"
	"database/sql"
	"os/exec"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"jobd/store/storetest/dbserver"
)

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
// that jobd knows, or SQLite. Each page has databases of its own, in which its blocks follow each other.
// Those of README.md are run by tests/walk.
func TestStatementsOfPagesAreTaken(t *testing.T) {
	t.Parallel()
	server, err := dbserver.Start(t.Context(), dbserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	pages := map[string][]func(string) error{}
	for _, b := range blocks(t) {
		if b.language != "sql" || b.page == "README.md" {
			continue
		}
		if pages[b.page] == nil {
			name := "page_" + strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(b.page)
			pages[b.page] = []func(string) error{
				onServer(t, server, name, dbserver.JobsTable), onServer(t, server, name+"_time", dbserver.JobsTable, aboutTime), inAFile(t, ""), inAFile(t, inFile),
			}
		}
		var said []string
		for _, take := range pages[b.page] {
			if err := take(b.text); err != nil {
				said = append(said, err.Error())
			}
		}
		if len(said) == len(pages[b.page]) {
			t.Errorf("%s:%d: no database takes this:\n%s", b.page, b.line, strings.Join(said, "\n"))
		}
	}
	if len(pages) == 0 {
		t.Error("no statement was found: this test looks for the wrong thing")
	}
}

// onServer runs statements as a person does who gives them to the server's own client.
func onServer(t *testing.T, server *dbserver.Server, database string, tables ...string) func(string) error {
	t.Helper()
	if err := server.CreateDatabase(t.Context(), database, tables...); err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		cmd := exec.Command("mariadb", "--no-defaults", "-u", "root", "-S", server.Socket(), database)
		cmd.Stdin = strings.NewReader(text)
		if output, err := cmd.CombinedOutput(); err != nil {
			return &refused{"MariaDB: " + string(output)}
		}
		return nil
	}
}

// inAFile runs statements in a database of SQLite.
func inAFile(t *testing.T, table string) func(string) error {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		if _, err := db.ExecContext(context.Background(), text); err != nil {
			return &refused{"SQLite: " + err.Error()}
		}
		return nil
	}
}

type refused struct{ text string }

func (r *refused) Error() string { return r.text }
