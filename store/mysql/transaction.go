package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
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

// once calls work with a connection, in which work begins and commits a transaction. Where it
// fails, or reports that it did not commit, the transaction is rolled back; where even that cannot
// be known, or the server takes no writes, the connection is closed.
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

// impatient is work during which the server does not wait for locks longer than it must.
func (t *Table) impatient(ctx context.Context, conn *sql.Conn, work func() error) error {
	const variable = "innodb_lock_wait_timeout"
	var usual int
	if err := conn.QueryRowContext(ctx, "SELECT @@SESSION."+variable).Scan(&usual); err != nil {
		return err
	}
	if usual <= shortWait {
		return work()
	}
	set := func(ctx context.Context, seconds int) error {
		_, err := conn.ExecContext(ctx, "SET SESSION "+variable+" = "+strconv.Itoa(seconds))
		return err
	}
	if err := set(ctx, shortWait); err != nil {
		return err
	}
	err := work()
	if set(context.WithoutCancel(ctx), usual) != nil {
		discard(conn)
	}
	return err
}

// shortWait is how many seconds the server waits for a lock where it can't do without: the least
// that all of them take.
const shortWait = 1
