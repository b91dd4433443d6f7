package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"

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
}

var _ store.Table = (*Table)(nil)

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
	t := &Table{config: config, name: name}
	t.db = sql.OpenDB(sessions{connector, &t.defaultLevel})
	t.db.SetMaxOpenConns(config.MaxOpen)
	t.db.SetMaxIdleConns(config.MaxOpen)
	t.db.SetConnMaxLifetime(connMaxLifetime)
	t.db.SetConnMaxIdleTime(connMaxIdle)
	return t, nil
}

// Close implements store.Table.
func (t *Table) Close() error { return t.db.Close() }

// Check implements store.Table.
func (t *Table) Check(ctx context.Context) error {
	err := t.retry(ctx, func() error { return t.examine(ctx) })
	return t.fail("check table "+t.config.Table, err)
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

// fail is the error of a method: what the caller needs to know of it is
// whether waiting helps. After a lost link the table is examined anew.
func (t *Table) fail(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case isUnusable(err):
		t.layout.Store(nil)
		return &store.Unusable{Op: op, Err: err}
	case lostLink(err):
		t.layout.Store(nil)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// warn logs a warning the first time that it is given.
func (t *Table) warn(message string, args ...any) {
	if _, given := t.warned.LoadOrStore(message, true); !given {
		t.config.Logger.Warn(message, append([]any{"table", t.config.Table}, args...)...)
	}
}
