package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Table is a jobs table in MySQL or MariaDB. It implements store.Table.
type Table struct {
	config       Config
	name         name
	db           *sql.DB
	layout       rule.Known[layout]     // nil until the table has been examined
	defaultLevel atomic.Bool            // the server refuses READ COMMITTED
	warned       sync.Map               // warnings given already
	reached      atomic.Pointer[string] // the server that the newest connection leads to
	servers      rule.Servers           // on which claims are made
	failures     rule.Failures          // what errors mean
	locked       lockMemory             // of the applied rows
	clients      chan struct{}          // holds one for each connection that a client's request uses
	claims       claims                 // what claims have learned
	advisory     advisory               // the locks that Hold took
}

var (
	_ store.Table     = (*Table)(nil)
	_ store.Inspector = (*Table)(nil)
)

// New makes a table. It connects when it is first used; its errors are about the configuration.
func New(config Config) (*Table, error) {
	config = config.withDefaults()
	name, err := config.name()
	if err != nil {
		return nil, fmt.Errorf("mysql table %s: %w", config.Table, err)
	}
	connector, err := driver.NewConnector(config.driver())
	if err != nil {
		return nil, fmt.Errorf("mysql table %s: %w", config.Table, err)
	}
	t := &Table{config: config, name: name, clients: make(chan struct{}, config.MaxOpen-reserved)}
	t.servers.OnServer = config.OnServer
	t.failures = rule.Failures{
		IsDubious: isDubious, IsUnusable: isUnusable, IsUnreachable: isUnreachable,
		Check: t.checkAlone, Forget: func() { t.layout.Store(nil) }, Explain: t.explained,
	}
	t.db = sql.OpenDB(sessions{connector, t})
	t.db.SetMaxOpenConns(config.MaxOpen - 1) // the advisory locks have a connection of their own
	t.db.SetMaxIdleConns(config.MaxOpen - 1)
	t.db.SetConnMaxLifetime(connMaxLifetime)
	t.db.SetConnMaxIdleTime(connMaxIdle)
	return t, nil
}

// Close implements store.Table.
func (t *Table) Close() error { return errors.Join(t.advisory.close(), t.db.Close()) }

// Check implements store.Table.
func (t *Table) Check(ctx context.Context) error {
	op := "check table " + t.config.Table
	err := t.retry(ctx, func() error { return t.examine(ctx) })
	if err == nil {
		return nil
	}
	t.layout.Store(nil)
	t.db.SetMaxIdleConns(0) // a session keeps the server's variables as they were when it was made
	t.db.SetMaxIdleConns(t.config.MaxOpen - 1)
	return t.failures.Certain(op, err)
}

// examined is what the table is like; it looks where that is not known.
func (t *Table) examined(ctx context.Context) (*layout, error) { return t.layout.Get(ctx, t.Check) }

// askTimeout is for asking the table itself whether it can be used.
const askTimeout = 15 * time.Second

// checkAlone examines the table itself, to know whether it can be used.
func (t *Table) checkAlone() error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return t.Check(ctx)
}

// fail is the error of a method.
func (t *Table) fail(op string, err error) error { return t.failures.Fail(op, err) }

// reserved is how many connections clients' requests leave to the worker: one each for applying, for claims, and
// for the advisory locks. So a client whose request has to wait keeps nobody waiting but other clients.
const reserved = 3

// client waits until one more client's request may use a connection; done ends that.
func (t *Table) client(ctx context.Context) (done func(), err error) {
	select {
	case t.clients <- struct{}{}:
		return func() { <-t.clients }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", ctx.Err())
	}
}

// warn logs a warning the first time that it is given.
func (t *Table) warn(message string, args ...any) {
	if _, given := t.warned.LoadOrStore(message, true); !given {
		t.config.Logger.Warn(message, append([]any{"table", t.config.Table}, args...)...)
	}
}
