package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
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
// is the same.
type sessions struct {
	sqldriver.Connector
	defaultLevel *atomic.Bool // the server refuses that level
}

// Connect implements driver.Connector.
func (s sessions) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil || s.defaultLevel.Load() {
		return conn, err
	}
	_, err = conn.(sqldriver.ExecerContext).ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// once calls work with a connection, in which work begins and commits a
// transaction. Where it fails, or reports that it did not commit, the transaction is rolled back; where
// even that cannot be known, the connection is closed.
func (t *Table) once(ctx context.Context, work func(conn *sql.Conn) (committed bool, err error)) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
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
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // makes the pool close it
	}
}

// retry calls attempt again while it loses against other transactions or gets dead
// or read-only connections.
func (t *Table) retry(ctx context.Context, attempt func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.RandomizationFactor = firstPause, 1
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := attempt()
		if number(err) == errIsolationLevel {
			t.defaultLevel.Store(true)
			t.db.SetMaxIdleConns(0) // gives up those that have the level
			t.db.SetMaxIdleConns(t.config.MaxOpen)
			t.warn("the server refuses READ COMMITTED (binlog_format=STATEMENT): its default level is used, under which claims may block inserts", "error", err)
		}
		if err != nil && !isTransient(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(tries), backoff.WithMaxElapsedTime(0))
	return explain(err)
}

// explain takes the wrapping of the retries off an error and says what a bad connection means.
func explain(err error) error {
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		err = permanent.Err
	}
	if errors.Is(err, sqldriver.ErrBadConn) {
		return fmt.Errorf("%w: %w", errNotWritable, err)
	}
	return err
}
