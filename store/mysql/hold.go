package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// How often the connection that has the locks is used, so that the server does not take it for dead, and how long
// that may take.
const (
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
)

// advisory is the advisory locks of a table, all on one connection of their own: a claim that waits does not hold them up,
// and they last as long as that connection.
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

// Hold implements store.Table.
func (t *Table) Hold(ctx context.Context, name string) (holder string, err error) {
	found, err := t.examined(ctx)
	if err != nil {
		return "", err
	}
	if t.advisory.has(name, found) {
		return "", nil
	}
	t.advisory.asking.Lock()
	defer t.advisory.asking.Unlock()
	holder, err = t.hold(ctx, name, found)
	return holder, t.fail("take the advisory lock "+name, err)
}

// has tells whether a lock is held. Where the table has lost a link since, the server is asked anew.
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

// hold asks the server for a lock. Callers must hold t.advisory.asking.
func (t *Table) hold(ctx context.Context, name string, found *layout) (holder string, err error) {
	if !found.version.manyLocks() {
		t.doWithout(name, found, errors.New("it can't hold several at once"))
		return "", nil
	}
	if err := t.connect(ctx); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout) // cancelling would cost all locks
	defer cancel()
	const again = 3 // the holder may have gone in between
	for range again {
		taken, err := t.takeLock(ctx, name, 0)
		if isRefusedLock(err) {
			t.doWithout(name, found, err)
			return "", nil
		}
		if err != nil {
			return "", t.lose(err)
		}
		if taken {
			t.advisory.note(name, found)
			return "", nil
		}
		id, holder, err := t.holderOf(ctx, name)
		if err == nil && t.advisory.isFormer(id) {
			taken, err = t.takeOver(ctx, name, id)
			if taken {
				t.advisory.note(name, found)
				return "", nil
			}
		}
		if err != nil || holder != "" {
			return holder, t.lose(err)
		}
	}
	return "", errors.New("it was free and taken by turns")
}

// doWithout takes a lock for held that the server does not have.
func (t *Table) doWithout(name string, found *layout, err error) {
	t.warn("the server has no advisory locks: nothing keeps another worker with the same name from the table", "error", err)
	t.advisory.note(name, found)
}

// isRefusedLock tells that the server has no advisory locks, or none for this account, from what is wrong for the moment:
// a statement or a connection that was ended, a server that shuts down, a deadlock.
func isRefusedLock(err error) bool {
	switch number(err) {
	case 0, errLockWaitTimeout, errDeadlock, 3058, 1053, 1077, 1078, 1079, 1317, 1927, 1969, 3024, 4031:
		return false
	}
	return true
}

// connect makes the connection of the locks, where there is none. It is one of those that the table may have.
func (t *Table) connect(ctx context.Context) error {
	a := &t.advisory
	if a.conn != nil {
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		if t.lose(a.conn.PingContext(ctx)) == nil {
			return nil
		}
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
	t.keepAlive()
	a.self, err = threadOf(ctx, a.conn)
	return t.lose(err)
}

// keepAlive starts using the connection now and then, until Close.
func (t *Table) keepAlive() {
	a := &t.advisory
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		return
	}
	stop := make(chan struct{})
	a.stop = stop
	interval := pingInterval
	if a.interval > 0 {
		interval = a.interval
	}
	a.ended.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				t.ping()
			case <-stop:
				return
			}
		}
	})
}

// ping uses the connection, and forgets the locks where it is lost.
func (t *Table) ping() {
	a := &t.advisory
	a.asking.Lock()
	defer a.asking.Unlock()
	if a.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	_ = t.lose(a.conn.PingContext(ctx)) // the next Hold takes the locks anew
}

// lose gives up the connection, and its locks with it, where there is an error. Callers must hold t.advisory.asking.
func (t *Table) lose(err error) error {
	a := &t.advisory
	if err == nil || a.conn == nil {
		return err
	}
	discard(a.conn)
	a.conn = nil
	a.leave()
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.held)
	return err
}

// takeLock tries to take a lock, for some seconds.
func (t *Table) takeLock(ctx context.Context, name string, seconds int) (bool, error) {
	var taken sql.NullBool
	query := fmt.Sprintf("SELECT GET_LOCK(%s, %d)", lockName, seconds)
	err := t.advisory.conn.QueryRowContext(ctx, query, t.lockNames(name)...).Scan(&taken)
	return taken.Bool, err
}

// holderOf tells which connection has a lock: the same words each time for the same one.
func (t *Table) holderOf(ctx context.Context, name string) (id int64, holder string, err error) {
	var used sql.NullInt64
	err = t.advisory.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+lockName+")", t.lockNames(name)...).Scan(&used)
	if err != nil || !used.Valid {
		return 0, "", err
	}
	id, holder = used.Int64, fmt.Sprintf("connection %d", used.Int64)
	var host sql.NullString
	err = t.advisory.conn.QueryRowContext(ctx, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = ?", id).Scan(&host)
	if err == nil && host.String != "" {
		return id, holder + " from " + host.String, nil
	}
	if number(err) == 0 && !errors.Is(err, sql.ErrNoRows) {
		return 0, "", err
	}
	return id, holder, nil // the account may not see other accounts' connections
}

// lockName is the lock's name, of which a server knows 64 characters at most. Some servers take two spellings of a table's name
// for the same.
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
