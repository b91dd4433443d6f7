package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"

	"jobd/store/internal/rule"
)

// Table is a jobs table in MySQL or MariaDB. It implements store.Table.
type Table struct {
	config       Config
	name         name
	db           *sql.DB
	layout       rule.Known[layout]     // nil until the table has been examined
	defaultLevel atomic.Bool            // the server refuses READ COMMITTED
	started      atomic.Bool            // the table was found fit once
	warned       sync.Map               // warnings given already
	reached      atomic.Pointer[string] // the server that the newest connection leads to
	servers      rule.Servers           // on which claims are made
	failures     rule.Failures          // what errors mean
	locked       lockMemory             // of the applied rows
	clients      chan struct{}          // holds one for each connection that a client's request uses
	claims       claims                 // what claims have learned
	advisory     advisory               // the locks that Hold took
}

// examined is what the table is like; it looks where that is not known.
func (t *Table) examined(ctx context.Context) (*layout, error) { return t.layout.Get(ctx) }

// fail is the error of a method.
func (t *Table) fail(op string, err error) error { return t.failures.Fail(op, err) }

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

// claims is what the claims of a table have learned.
type claims struct {
	odd       rule.Odd     // rows that no worker can claim
	overtaken atomic.Int32 // claims in a row that were overtaken
	column    atomic.Pointer[targetColumn]
	onward    onward // where the next claims go on
}
