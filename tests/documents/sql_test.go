package documents

import (
	"database/sql"
	"os/exec"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
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
// that jobd knows, or SQLite. Each page begins with a new database, called application as in the pages,
// in which its blocks follow each other. Those of README.md are run by tests/walk.
func TestStatementsOfPagesAreTaken(t *testing.T) {
	t.Parallel()
	server := must.Get(dbserver.Start(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
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
