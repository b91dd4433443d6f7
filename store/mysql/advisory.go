package mysql

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"sync"
	"time"
)

// advisory is the advisory locks of a table, all on one connection of their own: a claim that waits
// does not hold them up, and they last as long as that connection.
type advisory struct {
	interval time.Duration // between pings; 0: pingInterval

	asking sync.Mutex // held while the server is asked
	pool   *sql.DB
	conn   *sql.Conn
	self   thread   // of conn
	former []thread // of connections before it, which the server may not have missed yet

	mu    sync.Mutex
	held  map[string]bool
	seen  *layout // of the table when the server last answered: it is another one after a lost link
	stop  chan struct{}
	ended sync.WaitGroup
}

// has tells whether a lock is held. Where the table has lost a link since, the server is asked
// anew.
func (a *advisory) has(name string, found *layout) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[name] && a.seen == found
}

// note remembers a lock.
func (a *advisory) note(name string, found *layout) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil {
		a.held = map[string]bool{}
	}
	a.held[name], a.seen = true, found
}

// close gives the locks back.
func (a *advisory) close() error {
	a.mu.Lock()
	stop := a.stop
	a.stop = nil
	a.mu.Unlock()
	if stop != nil {
		close(stop)
		a.ended.Wait()
	}
	a.asking.Lock()
	defer a.asking.Unlock()
	if a.conn != nil {
		discard(a.conn)
		a.conn = nil
	}
	if a.pool == nil {
		return nil
	}
	return a.pool.Close()
}

// thread tells a connection from all others that a server ever had: it counts them anew after each
// of its starts.
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

// isFormer tells whether a connection of the server is one that this process has given up. Callers
// must hold asking.
func (a *advisory) isFormer(id int64) bool {
	const slack = 2 // seconds
	return id != 0 && slices.ContainsFunc(a.former, func(s thread) bool {
		return s.id == id && s.booted-a.self.booted <= slack && a.self.booted-s.booted <= slack
	})
}
