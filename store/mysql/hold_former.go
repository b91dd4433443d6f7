package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
)

// A connection whose packets vanish is lost here at once, and at the server only after its wait_timeout. Until then it has
// the locks. This process opened it, and has given it up: so it ends it there too, which every account may do to
// its own connections, instead of claiming nothing for half a minute.

// thread tells a connection from all others that a server ever had: it counts them anew after each of its starts.
type thread struct {
	id     int64
	booted int64 // when the server started, in unix seconds, give or take one
}

// mostFormer is how many former connections are remembered.
const mostFormer = 16

// threadOf asks which connection this is.
func threadOf(ctx context.Context, conn *sql.Conn) (thread, error) {
	var s thread
	var now int64
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID(), UNIX_TIMESTAMP()").Scan(&s.id, &now); err != nil {
		return thread{}, err
	}
	var name, text string
	if err := conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &text); err != nil {
		return thread{}, err
	}
	uptime, err := strconv.ParseInt(text, 10, 64)
	s.booted = now - uptime
	return s, err
}

// leave remembers the connection that was given up. Callers must hold asking.
func (a *advisory) leave() {
	if a.self.id == 0 {
		return
	}
	a.former = append(a.former, a.self)
	a.former = a.former[max(0, len(a.former)-mostFormer):]
	a.self = thread{}
}

// isFormer tells whether a connection of the server is one that this process has given up. Callers must hold asking.
func (a *advisory) isFormer(id int64) bool {
	const slack = 2 // seconds
	return id != 0 && slices.ContainsFunc(a.former, func(s thread) bool {
		return s.id == id && s.booted-a.self.booted <= slack && a.self.booted-s.booted <= slack
	})
}

// takeOver ends a former connection and takes the lock that it had.
func (t *Table) takeOver(ctx context.Context, name string, id int64) (taken bool, err error) {
	if _, err := t.advisory.conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil && number(err) == 0 {
		return false, err
	}
	t.config.Logger.Info("a former connection of this worker, which the server had not missed yet, was ended", "connection", id)
	const patience = 2 // seconds
	return t.takeLock(ctx, name, patience)
}
