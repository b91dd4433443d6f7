package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// shared is the one server of this package's tests, with a database for each of them.
var shared *dbserver.Server

var databases atomic.Int64

// hung is how long a wait may take: it ends a test that hangs, and is far more than any takes.
const hung = 2 * time.Minute

// tries is how often something that waits for nobody is tried until it is as quick as that: on a
// busy machine it may not be each time.
const tries = 10

// together is how many tests run at once, if nobody says: most of their time they wait for locks.
const together = "8"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", together) // it is there
	}
	var err error
	if shared, err = dbserver.Start(context.Background(), dbserver.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := errors.Join(shared.Close(), goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// database is a fresh database with a jobs table, and the account for it.
type database struct {
	server  *dbserver.Server
	name    string
	account dbserver.Account
	app     *sql.DB
}

// newDatabase makes a database on the shared server; ddl creates its table jobs.
func newDatabase(t testing.TB, ddl string) *database {
	t.Helper()
	return newDatabaseOn(t, shared, ddl)
}

func newDatabaseOn(t testing.TB, server *dbserver.Server, ddl string) *database {
	t.Helper()
	db := &database{server: server, name: fmt.Sprintf("db%d", databases.Add(1))}
	must.Do(t, server.CreateDatabase(t.Context(), db.name, ddl))
	var err error
	if db.account, err = server.Limited(t.Context(), db.name); err != nil {
		t.Fatal(err)
	}
	if db.app, err = server.Open(db.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.app.Close() })
	return db
}

// config is the daemons' configuration for the database.
func (d *database) config() mysql.Config {
	return mysql.Config{
		Host: "127.0.0.1", Port: d.server.Port(), User: d.account.User, Password: d.account.Password,
		Database: d.name, Worker: "node-1", Logger: slog.New(slog.DiscardHandler),
	}
}

// open makes a table and closes it when the test ends.
func open(t testing.TB, config mysql.Config) *mysql.Table {
	t.Helper()
	table := must.Get(mysql.New(config))(t)
	t.Cleanup(func() { table.Close() })
	return table
}

// table is a worker's access to the database, examined already, and trusting the server.
func (d *database) table(t testing.TB) *mysql.Table {
	t.Helper()
	table := open(t, d.config())
	return confirmed(t, table)
}

// confirmed lets a table make claims on the server that it reaches.
func confirmed(t testing.TB, table *mysql.Table) *mysql.Table {
	t.Helper()
	server := must.Get(table.Server(t.Context()))(t)
	table.Confirm(server)
	return table
}

// proxied is a worker's access through a proxy, examined already.
func (d *database) proxied(t testing.TB) (*mysql.Table, *linkproxy.Proxy) {
	t.Helper()
	proxy := must.Get(linkproxy.Start(d.server.Addr()))(t)
	config := d.config()
	config.Port = proxy.Port()
	table := confirmed(t, open(t, config))
	t.Cleanup(func() { proxy.Close() })
	return table, proxy
}

func (d *database) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := d.app.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// insert adds a row and gives its id.
func (d *database) insert(t testing.TB, target, status, owner string) int64 {
	t.Helper()
	result := must.Get(d.app.Exec("INSERT INTO jobs (target, time_created, status, sig) VALUES (?, 1, ?, NULLIF(?, ''))", target, status, owner))(t)
	id := must.Get(result.LastInsertId())(t)
	return id
}

// expect compares a row's columns, joined by blanks, NULL as "-".
func (d *database) expect(t testing.TB, id int64, columns, want string) {
	t.Helper()
	var parts []string
	for column := range strings.FieldsSeq(columns) {
		parts = append(parts, "COALESCE("+column+", '-')")
	}
	var got string
	must.Do(t, d.app.QueryRow("SELECT CONCAT_WS(' ', "+strings.Join(parts, ", ")+") FROM jobs WHERE id = ?", id).Scan(&got))
	if got != want {
		t.Errorf("job %d: %s are %q, want %q", id, columns, got, want)
	}
}

const token = "@abcd01234"

// accept decides that all rows are accepted under the token.
func accept(rows []journal.Row) ([]journal.Event, error) {
	var events []journal.Event
	for _, row := range rows {
		events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: row.Target, Token: token}})
	}
	return events, nil
}

// done is a change to done with the output on stdout.
func done(job int64, stdout string) store.Change {
	zero := 0
	return store.Change{Job: job, Token: token, Status: journal.RowDone, Done: &journal.Done{
		Result: "ok", Code: &zero, Stdout: journal.Output{Kept: []byte(stdout), Size: int64(len(stdout))},
	}}
}

// log collects what a table logs.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Writer(l), nil)) }
