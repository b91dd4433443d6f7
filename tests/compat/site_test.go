package compat

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the application's driver

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// site is a folder in which a worker of some version works: its configuration, its journal, its
// table in a file, and its launcher.
type site struct {
	dir  string
	port string
	db   *sql.DB
}

// What a fixture's job does: it says so in a file, and then what its number says. Jobs that wait
// do so as one process.
const launcher = `#!/bin/sh
cd "${0%/*}" && echo "$1" >>starts
case $1 in
1) echo done by the first; sleep 1.2;;
2) echo it went wrong >&2; exit 3;;
4 | 6) echo so far; exec sleep 1000;;
7) [ -e mended ];;
9) exit 1;;
esac
`

// newSite makes the launcher; the rest is there, or becomes.
func newSite(t *testing.T, dir string) *site {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(dir, "launcher.sh"), []byte(launcher), 0o600))
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(dir, "jobs.db")+"?_pragma=busy_timeout(30000)&_txlock=immediate"))(t)
	t.Cleanup(func() { db.Close() })
	return &site{dir: dir, port: harness.FreePort(t), db: db}
}

// configure writes the configuration: a text in which @DIR@ and @PORT@ stand for what is the
// site's own.
func (s *site) configure(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(s.dir, "jobd.conf")
	text = strings.NewReplacer("@DIR@", s.dir, "@PORT@", s.port).Replace(text)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// start starts a worker of some version, and waits until it answers.
func (s *site) start(t *testing.T, binary string) *harness.Daemon {
	t.Helper()
	return harness.LaunchBinary(t, binary, filepath.Join(s.dir, "jobd.conf"), "127.0.0.1:"+s.port).Ready(t)
}

// insert adds a job as the application does.
func (s *site) insert(t *testing.T, id int64, target, status string) {
	t.Helper()
	s.exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (?, ?, unixepoch(), ?)", id, target, status)
}

func (s *site) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// await waits until a row says what the condition asks for.
func (s *site) await(t *testing.T, id int64, condition string) {
	t.Helper()
	harness.Until(t, func() string {
		var holds bool
		var status, stderr sql.NullString
		err := s.db.QueryRowContext(t.Context(), "SELECT ("+condition+") IS TRUE, status, stderr FROM jobs WHERE id = ?", id).
			Scan(&holds, &status, &stderr)
		if err != nil || !holds {
			return fmt.Sprintf("job %d is %q, not %s, stderr %q: %v", id, status.String, condition, stderr.String, err)
		}
		return ""
	})
}

// starts tells how many times a job was started by the workers of this site's folder.
func (s *site) starts(t *testing.T, id int64) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "starts"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line == fmt.Sprintln(id) {
			n++
		}
	}
	return n
}

// ask sends a request whose answer's data is of no interest; an error is one.
func ask(t *testing.T, worker *harness.Daemon, kind string, data any) (refused string) {
	t.Helper()
	client := harness.Dial(t, worker.Addr)
	defer client.Close()
	return client.Ask(t, kind, data).Error
}
