package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	driver "github.com/go-sql-driver/mysql"

	"jobd/store/internal/rule"
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
const begin = "START TRANSACTION"

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
		if number(err) == errNoSuchIndex {
			t.layout.Store(nil) // somebody has dropped or renamed one
		}
		if err != nil && (!isTransient(err) || isLockWait(err)) { // a lock is waited for once
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(limit), backoff.WithMaxElapsedTime(0))
	var permanent *backoff.PermanentError // one that the attempt itself has made
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	return err
}

var commit = rule.Statement{Query: "COMMIT"}

// send sends statements and tells how many rows each matched: in one round trip, but on a node of a
// Galera cluster one by one. There a transaction of another node may undo ours at any moment, and a
// server to which that happens between two statements of a packet does not tell: what follows is no
// part of a transaction any more, and COMMIT succeeds (measured with MariaDB 10.11).
func (l *layout) send(ctx context.Context, conn *sql.Conn, statements ...rule.Statement) (matched []int64, err error) {
	packet := len(statements)
	if l.galera {
		packet = 1
	}
	for some := range slices.Chunk(statements, packet) {
		met, err := sendPacket(ctx, conn, some)
		if err != nil {
			return nil, err
		}
		matched = append(matched, met...)
	}
	return matched, nil
}

// sendPacket sends statements in one round trip. The driver's own result is needed: database/sql's
// knows the last statement only.
func sendPacket(ctx context.Context, conn *sql.Conn, statements []rule.Statement) (matched []int64, err error) {
	var query strings.Builder
	var args []sqldriver.NamedValue
	for _, one := range statements {
		query.WriteString(one.Query + "; ")
		for _, arg := range one.Args {
			args = append(args, sqldriver.NamedValue{Ordinal: len(args) + 1, Value: arg})
		}
	}
	err = conn.Raw(func(raw any) error {
		result, err := raw.(sqldriver.ExecerContext).ExecContext(ctx, strings.TrimSuffix(query.String(), "; "), args)
		if err != nil {
			return err
		}
		matched = result.(driver.Result).AllRowsAffected()
		if len(matched) < len(statements) {
			return fmt.Errorf("%d results for %d statements", len(matched), len(statements))
		}
		return nil
	})
	return matched, err
}

// waitingLimit is how many targets are asked for in one packet.
const waitingLimit = 100
