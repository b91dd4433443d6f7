package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// How often the connection that has the locks is used, so that the server does not take it for
// dead, and how long that may take: long enough for a link whose round trips take seconds. Both together
// are less than the 30 s after which the server hangs up, and others may have the locks.
const (
	pingInterval = 10 * time.Second
	pingTimeout  = 10 * time.Second
)

// Hold implements store.Table.
func (t *Table) Hold(ctx context.Context, name string) (holder string, err error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return "", err
	}
	a := &t.advisory
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[name] && a.seen == found { // else the table has lost a link since
		return "", nil
	}
	holder, err = t.hold(ctx, name, found)
	return holder, t.Fail("take the advisory lock "+name, err)
}

// hold asks the server for a lock. Callers must hold t.advisory.mu. A connection of this process
// that was lost has its locks until the server misses it, after its wait_timeout at the latest.
func (t *Table) hold(ctx context.Context, name string, found *layout) (holder string, err error) {
	if err := t.connect(ctx); err != nil {
		return "", err
	}
	var taken sql.NullBool
	err = t.advisory.ask(ctx, &taken, "SELECT GET_LOCK("+lockName+", 0)", t.lockNames(name)...)
	switch {
	case isRefusedLock(err):
		t.warn("the server has no advisory locks: nothing keeps another worker with the same name from the table", "error", err)
	case err != nil:
		return "", t.lose(err)
	case !taken.Bool:
		_, holder, err = t.holderOf(ctx, name)
		return cmp.Or(holder, "a connection that is closed now"), t.lose(err)
	}
	if t.advisory.held == nil {
		t.advisory.held = map[string]bool{}
	}
	t.advisory.held[name], t.advisory.seen = true, found
	return "", nil
}

// connect makes the connection of the locks, where there is none. It is one of those that the table
// may have.
func (t *Table) connect(ctx context.Context) error {
	a := &t.advisory
	if a.conn != nil && t.lose(a.ask(ctx, &a.self, connectionID)) == nil {
		return nil
	}
	if a.pool == nil {
		connector, err := driver.NewConnector(t.config.driver())
		if err != nil {
			return err
		}
		a.pool = sql.OpenDB(connector)
		a.pool.SetMaxOpenConns(1)
	}
	var err error
	if a.conn, err = a.pool.Conn(ctx); err != nil {
		return err
	}
	a.alive = time.AfterFunc(cmp.Or(a.interval, pingInterval), t.ping)
	err = a.ask(ctx, &a.self, connectionID)
	if err == nil && t.config.Place != "" {
		err = t.endFormer(ctx, "place:"+t.config.Place)
	}
	return t.lose(err)
}

// endFormer takes the lock of this worker's place, and ends the connection that has it: that was this
// worker's, or its killed predecessor's, and the server has not missed it yet. Behind a proxy it does so
// after its wait_timeout only, and until then that connection has the worker's name. Every account may
// end its own connections.
func (t *Table) endFormer(ctx context.Context, place string) error {
	take := func(patience int) (taken bool, err error) {
		var answer sql.NullBool
		names := append(t.lockNames(place), patience)
		err = t.advisory.ask(ctx, &answer, "SELECT GET_LOCK("+lockName+", ?)", names...)
		if isRefusedLock(err) {
			return true, nil // Hold warns of it
		}
		return answer.Bool, err
	}
	if taken, err := take(0); taken || err != nil {
		return err
	}
	id, holder, err := t.holderOf(ctx, place)
	if err != nil || id == 0 {
		return err
	}
	if _, err := t.advisory.conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
		t.warn("a former connection of this worker can't be ended; the server ends it within 30 s", "connection", holder, "error", err)
		return nil
	}
	t.config.Logger.Info("a former connection of this worker, which the server had not missed yet, was ended", "connection", holder)
	const patience = 2 // seconds
	_, err = take(patience)
	return err
}

// ping uses the connection, and forgets the locks where it is lost; else it comes again.
func (t *Table) ping() {
	a := &t.advisory
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if t.lose(a.conn.PingContext(ctx)) != nil { // the next Hold takes the locks anew
		t.config.OnLost()
		return
	}
	a.alive.Reset(cmp.Or(a.interval, pingInterval))
}

// lose gives up the connection, and its locks with it, where there is an error. Callers must hold
// t.advisory.mu.
func (t *Table) lose(err error) error {
	a := &t.advisory
	if err == nil || a.conn == nil {
		return err
	}
	a.alive.Stop()
	discard(a.conn)
	a.conn = nil
	clear(a.held)
	return err
}

// Holder implements store.Table.
func (t *Table) Holder(ctx context.Context, name string) (holder string, err error) {
	if _, err := t.layout.Get(ctx); err != nil {
		return "", err
	}
	t.advisory.mu.Lock()
	defer t.advisory.mu.Unlock()
	if err := t.connect(ctx); err != nil {
		return "", t.Fail("look at the advisory lock "+name, err)
	}
	id, holder, err := t.holderOf(ctx, name)
	if isRefusedLock(err) || err == nil && id == t.advisory.self {
		return "", nil
	}
	return holder, t.Fail("look at the advisory lock "+name, t.lose(err))
}

// advisory is the advisory locks of a table, all on one connection of their own: a claim that waits
// does not hold them up, and they last as long as that connection.
type advisory struct {
	interval time.Duration // between pings; 0: pingInterval

	mu    sync.Mutex // held while the server is asked, too
	pool  *sql.DB
	conn  *sql.Conn
	self  int64 // the number of conn
	held  map[string]bool
	seen  *layout     // of the table when the server last answered: it is another one after a lost link
	alive *time.Timer // of the next ping
}

// ask asks for one value on the connection that has the locks. It is not cancelled, which would cost all
// of them. Callers must hold a.mu.
func (a *advisory) ask(ctx context.Context, into any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
	defer cancel()
	return a.conn.QueryRowContext(ctx, query, args...).Scan(into)
}

// connectionID asks for the number of the connection, which shows whether it lives.
const connectionID = "SELECT CONNECTION_ID()"

// close gives the locks back.
func (a *advisory) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		a.alive.Stop()
		discard(a.conn)
		a.conn = nil
	}
	if a.pool == nil {
		return nil
	}
	return a.pool.Close()
}

// holderOf tells which connection has a lock: the same words each time for the same one. The account
// may not see other accounts' connections.
func (t *Table) holderOf(ctx context.Context, name string) (id int64, holder string, err error) {
	var used sql.NullInt64
	var host string
	err = t.advisory.ask(ctx, &used, "SELECT IS_USED_LOCK("+lockName+")", t.lockNames(name)...)
	if err != nil || !used.Valid {
		return 0, "", err
	}
	err = t.advisory.ask(ctx, &host, "SELECT COALESCE(MAX(HOST), 'elsewhere') FROM information_schema.PROCESSLIST WHERE ID = ?", used.Int64)
	return used.Int64, fmt.Sprintf("connection %d from %s", used.Int64, host), err
}

// lockName is the lock's name, of which a server knows 64 characters at most. Some servers take two
// spellings of a table's name for the same.
const lockName = "IF(@@lower_case_table_names = 0, ?, ?)"

// lockNames are the arguments of lockName.
func (t *Table) lockNames(name string) []any {
	hashed := func(database, table string) string {
		sum := sha256.Sum256([]byte(database + "\x00" + table + "\x00" + name))
		const bytes = 20
		return "jobd:" + hex.EncodeToString(sum[:bytes])
	}
	return []any{
		hashed(t.name.database, t.name.table),
		hashed(strings.ToLower(t.name.database), strings.ToLower(t.name.table)),
	}
}

// isRefusedLock tells that the server has no advisory locks, or none for this account, from what is
// wrong for the moment: a statement or a connection that was ended, a server that shuts down, a
// deadlock.
func isRefusedLock(err error) bool {
	switch number(err) {
	case 0, errLockWaitTimeout, errDeadlock, 3058, 1053, 1077, 1078, 1079, 1317, 1927, 1969, 3024, 4031:
		return false
	}
	return true
}
