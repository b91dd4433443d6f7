package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	driver "github.com/go-sql-driver/mysql"

	"jobd/store/internal/rule"
)

// Connections, each of which knows its server, and transactions on them.

// link is one connection to a server, which knows which server that is. A connection never moves to
// another server: one that was made before a failover is lost with it. A proxy that moves a live
// session to another server behind jobd's back is not seen here.
type link struct {
	driverConn
	table  *Table
	server string
}

// driverConn is what database/sql and this package use of the driver's connections.
type driverConn interface {
	sqldriver.Conn
	sqldriver.Pinger
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.SessionResetter
	sqldriver.Validator
	sqldriver.NamedValueChecker
}

// ResetSession is called before the pool gives the connection out again. One to another server than
// the newest connection reached is given up: the server is the one that answers now.
func (l *link) ResetSession(ctx context.Context) error {
	if newest := l.table.reached.Load(); newest != nil && *newest != l.server {
		return sqldriver.ErrBadConn
	}
	return l.driverConn.ResetSession(ctx)
}

// Server implements store.Table. It is asked of a connection that answers.
func (t *Table) Server(ctx context.Context) (id string, err error) {
	if _, err := t.layout.Get(ctx); err != nil {
		return "", err
	}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (bool, error) {
			if err := conn.PingContext(ctx); err != nil {
				return false, err
			}
			id = serverOf(conn)
			return true, nil
		})
	})
	return id, t.Fail("ask which server it is", err)
}

// serverOf is the server that a connection leads to.
func serverOf(conn *sql.Conn) (id string) {
	_ = conn.Raw(func(raw any) error { // the connection is not used
		id = raw.(*link).server
		return nil
	})
	return id
}

// identify asks which server a connection has reached. No privilege is needed. Servers that do not
// know a variable leave it out.
//
// MySQL's server_uuid says it all. MariaDB has none before server_uid, which is made of little more
// than host and port. All nodes of a Galera cluster are one server here: what one has committed,
// the others have too.
func identify(ctx context.Context, conn driverConn) (string, error) {
	known, err := pairs(ctx, conn, "SHOW VARIABLES WHERE Variable_name IN "+
		"('server_uuid', 'hostname', 'port', 'server_id', 'server_uid', 'wsrep_on')")
	if err != nil {
		return "", fmt.Errorf("ask which server it is: %w", err)
	}
	if known["wsrep_on"] == "ON" {
		status, err := pairs(ctx, conn, "SHOW STATUS LIKE 'wsrep_cluster_state_uuid'")
		if err != nil {
			return "", fmt.Errorf("ask which cluster it is: %w", err)
		}
		if cluster := status["wsrep_cluster_state_uuid"]; cluster != "" {
			return "galera:" + cluster, nil
		}
	}
	if id := known["server_uuid"]; id != "" {
		return id, nil
	}
	id := known["hostname"] + ":" + known["port"] + ":" + known["server_id"]
	if uid := known["server_uid"]; uid != "" {
		id += ":" + uid
	}
	return id, nil
}

// pairs reads names, in lower case, and their values.
func pairs(ctx context.Context, conn driverConn, query string) (found map[string]string, err error) {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found = map[string]string{}
	row := make([]sqldriver.Value, len(rows.Columns()))
	if len(row) < 2 {
		return nil, fmt.Errorf("%d columns instead of a name and a value", len(row))
	}
	for {
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		found[strings.ToLower(text(row[0]))] = text(row[1])
	}
}

// text is a value as the driver gives texts.
func text(value sqldriver.Value) string {
	if bytes, ok := value.([]byte); ok {
		return string(bytes)
	}
	return fmt.Sprint(value)
}

// sessions makes connections with the isolation level READ COMMITTED, which takes no gap locks:
// they would make applications' INSERTs wait (pitfall 1). MariaDB and MySQL name the variable
// differently, the statement is the same. Each connection is asked once which server it has
// reached.
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
	if !s.table.defaultLevel.Load() {
		_, err = conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil)
	}
	server := ""
	if err == nil {
		server, err = identify(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if former := s.table.reached.Swap(&server); former != nil && *former != server {
		s.table.layout.Store(nil) // what was known of another server's table is asked again
	}
	s.table.Reach(server)
	return &link{driverConn: conn, table: s.table, server: server}, nil
}

// version is what a server says it is.
type version struct {
	number  []int // major, minor, patch
	mariaDB bool
}

// parseVersion reads a version as @@version gives it, "10.11.6-MariaDB-log" or "9.1.0". TiDB passes
// for MySQL, takes SKIP LOCKED and locks nothing (pitfall 47): jobs would be started twice.
func parseVersion(text string) (version, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return version{}, rule.Misfit{Text: fmt.Sprintf("the server's version %q is not understood: %v", text, err)}
	}
	lower := strings.ToLower(text)
	if strings.Contains(lower, "tidb") {
		return version{}, rule.Misfit{Text: fmt.Sprintf("the server is TiDB (%s), whose locks do not keep two workers from one row: let mysql_host lead to MySQL or MariaDB", text)}
	}
	v := version{[]int{major, minor, patch}, strings.Contains(lower, "mariadb")}
	if !v.since([]int{5, 7, 5}, []int{10, 0, 2}) { // whose connections have one advisory lock at a time
		return version{}, rule.Misfit{Text: fmt.Sprintf("the server (%s) is too old: use MariaDB from 10.6, or MySQL from 8.0.1", text)}
	}
	return v, nil
}

// since tells whether the server is one of MySQL's or MariaDB's versions from these on.
func (v version) since(mySQL, mariaDB []int) bool {
	first := mySQL
	if v.mariaDB {
		first = mariaDB
	}
	return slices.Compare(v.number, first) >= 0
}

// skipsLocked tells whether reading rows can pass by those that somebody else has locked (pitfall 3).
func (v version) skipsLocked() bool { return v.since([]int{8, 0, 1}, []int{10, 6, 0}) }

// locking is the clause that locks rows. Where the server can't pass by the locks of others, it waits
// for them.
func (v version) locking() string {
	if v.skipsLocked() {
		return "FOR UPDATE SKIP LOCKED"
	}
	return "FOR UPDATE"
}

// descends tells whether indexes can be in descending order. Older servers take the word and make an
// ascending one.
func (v version) descends() bool { return v.since([]int{8, 0, 1}, []int{10, 8, 0}) }

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
