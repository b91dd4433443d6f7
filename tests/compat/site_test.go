package compat

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
	_ "modernc.org/sqlite" // the application's driver
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

// TestMain lets more tests run at once than there are processors: all of them wait nearly all of
// the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if atOnce := flag.Lookup("test.parallel"); atOnce.Value.String() == atOnce.DefValue {
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err) // the flag is there
		}
	}
	harness.Main(m)
}

// fixtures is the folder with what former versions have left.
var fixtures = filepath.Join(harness.Top(), "testdata", "compat")

// version is a former version that wrote something else than the one before, or wrote it in another
// way.
type version struct {
	name   string
	commit string // the last one that wrote so
	// What its worker is told beyond the configuration of all.
	config string
	// What it can do, which is part of its fixture.
	rolls, cancels, plans bool
	refused               string // what a start on its journal says; "": it goes on
}

// The configuration of schedules, as the version that brought them shipped it.
const planned = `use_columns = all
time_zone = Europe/Berlin

[target c]
attempts = 2
backoff = 1m
timeout = 1m
`

// In the order of their times.
var versions = []version{
	{
		name: "schema-1", commit: "9a376d7",
		refused: "version 1 was written before the first release, and is not read any more: " +
			"let the jobd that wrote it end its jobs, then move the folder away",
	},
	{
		name: "schema-2", commit: "6bd8001", rolls: true,
		refused: "version 2 was written before the first release, and is not read any more: " +
			"let the jobd that wrote it end its jobs, then move the folder away",
	},
	{name: "schema-3", commit: "6507ca5", rolls: true},
	{name: "before-marks", commit: "3e0ca45", rolls: true},
	{name: "marks", commit: "0bcdfe1", rolls: true},
	{name: "requests", commit: "51f1986", rolls: true},
	{name: "removals", commit: "f2dd6bc", rolls: true},
	{name: "cancelled", commit: "32ff79a", rolls: true, cancels: true},
	{name: "planned", commit: "f255742", rolls: true, cancels: true, plans: true, config: planned},
}

// Which of the fixture's jobs does what.
const (
	fine     = 1 // it succeeds
	failing  = 2
	byHand   = 3 // its row was manual, and somebody asked for it
	unended  = 4 // it runs when the worker is killed
	queued   = 5 // it is claimed then
	stopped  = 6 // somebody cancels it
	again    = 7 // it fails, and somebody retries it
	hourly   = 8 // its row recurs
	repeated = 9 // it fails, and is to be tried again in a minute
	unheard  = 99
)
