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
)

// Table is a jobs table in MySQL or MariaDB. It implements store.Table.
type Table struct {
	config       Config
	name         name
	db           *sql.DB
	layout       atomic.Pointer[layout] // nil until the table has been examined
	defaultLevel atomic.Bool            // the server refuses READ COMMITTED
	warned       sync.Map               // warnings given already
	reached      atomic.Pointer[string] // the server that the newest connection leads to
	confirmed    atomic.Pointer[string] // the server that claims are made on
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
	switch {
	case isUnusable(err):
		return &store.Unusable{Op: op, Err: t.explained(err)}
	case isUnreachable(err):
		return &store.Unreachable{Op: op, Err: t.explained(err)}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// examined is what the table is like; it asks where that is not known.
func (t *Table) examined(ctx context.Context) (*layout, error) {
	if known := t.layout.Load(); known != nil {
		return known, nil
	}
	if err := t.Check(ctx); err != nil {
		return nil, err
	}
	return t.layout.Load(), nil
}

// confirmTimeout is for asking the table itself whether it can be used.
const confirmTimeout = 15 * time.Second

// fail is the error of a method. A lost link, and what was found when the table was examined, are known for certain. Where
// only an error's number says that the table is out of reach, the table is asked, without any row: the
// number may be a trigger's, and then it says nothing of the table. After a lost link the table is examined anew.
func (t *Table) fail(op string, err error) error {
	var unreachable *store.Unreachable
	var unusable *store.Unusable
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreachable), errors.As(err, &unusable):
		return err
	case isDubious(err):
		ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
		defer cancel()
		if known := t.Check(ctx); store.IsAway(known) {
			return fmt.Errorf("%s: %w (first seen as: %w)", op, known, err)
		}
	case isUnusable(err):
		t.layout.Store(nil)
		return &store.Unusable{Op: op, Err: t.explained(err)}
	case isUnreachable(err):
		t.layout.Store(nil)
		return &store.Unreachable{Op: op, Err: t.explained(err)}
	}
	return fmt.Errorf("%s: %w", op, err)
}

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
