package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A transaction that lost against another one is done again this often, after a pause of this
// length at first, with full jitter (pitfall 5).
const (
	tries      = 5
	firstPause = 20 * time.Millisecond
)

// rollbackTimeout is for a ROLLBACK; a connection that takes longer is closed.
const rollbackTimeout = 5 * time.Second

// begin opens every transaction of more than one statement.
const begin = "START TRANSACTION; "

// sessions makes connections with the isolation level READ COMMITTED, which takes no gap locks: they would make
// applications' INSERTs wait (pitfall 1). MariaDB and MySQL name the variable differently, the statement
// is the same. Each connection is asked once which server it has reached.
type sessions struct {
	sqldriver.Connector
	table *Table
}

// Connect implements driver.Connector.
func (s sessions) Connect(ctx context.Context) (sqldriver.Conn, error) {
	made, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := made.(driverConn)
	server, err := s.setUp(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.table.met(server)
	return &link{driverConn: conn, table: s.table, server: server}, nil
}

// setUp makes a session of a new connection and tells which server it leads to.
func (s sessions) setUp(ctx context.Context, conn driverConn) (server string, err error) {
	if !s.table.defaultLevel.Load() {
		if _, err := conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
			return "", err
		}
	}
	return identify(ctx, conn)
}

// once calls work with a connection, in which work begins and commits a
// transaction. Where it fails, or reports that it did not commit, the transaction is rolled back; where
// even that cannot be known, or the server takes no writes, the connection is closed.
func (t *Table) once(ctx context.Context, work func(conn *sql.Conn) (committed bool, err error)) (err error) {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		switch {
		case isReadOnly(err):
			discard(conn)
		case !committed:
			rollback(context.WithoutCancel(ctx), conn)
		}
		_ = conn.Close() // back to the pool: it has nothing to say
	}()
	committed, err = work(conn)
	return err
}

// rollback ends what may still be open on a connection.
func rollback(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(ctx, rollbackTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		discard(conn)
	}
}

// discard ends a connection instead of giving it back to its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // which makes the pool close it
	_ = conn.Close()                                              // it has nothing more to say
}

// retry calls attempt again while it loses against other transactions or gets dead
// or read-only connections.
func (t *Table) retry(ctx context.Context, attempt func() error) error {
	return t.retryUpTo(ctx, tries, attempt)
}

// retryUpTo is retry with a number of tries.
func (t *Table) retryUpTo(ctx context.Context, limit uint, attempt func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.RandomizationFactor = firstPause, 1
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := attempt()
		if number(err) == errIsolationLevel {
			t.defaultLevel.Store(true)
			t.db.SetMaxIdleConns(0) // gives up those that have the level
			t.db.SetMaxIdleConns(t.config.MaxOpen - 1)
			t.warn("the server refuses READ COMMITTED (binlog_format=STATEMENT): its default level is used, under which claims may block inserts", "error", err)
		}
		if err != nil && !isTransient(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(limit), backoff.WithMaxElapsedTime(0))
	return explain(err)
}

// explain takes the wrapping of the retries off an error and says what a bad connection means.
func explain(err error) error {
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		err = permanent.Err
	}
	if errors.Is(err, sqldriver.ErrBadConn) {
		return fmt.Errorf("%w: %w", errNoConnection, err)
	}
	return err
}
