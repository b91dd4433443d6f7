package mysql

import (
	"context"
	"database/sql"
	"errors"
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

// connect makes the connection of the locks, where there is none. It is one of those that the table
// may have.
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
		a.pool = sql.OpenDB(prompt{connector, t.config.ReadTimeout})
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
	if t.lose(a.conn.PingContext(ctx)) != nil { // the next Hold takes the locks anew
		t.config.OnLost()
	}
}

// lose gives up the connection, and its locks with it, where there is an error. Callers must hold
// t.advisory.asking.
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

// Holder implements store.Table.
func (t *Table) Holder(ctx context.Context, name string) (holder string, err error) {
	found, err := t.examined(ctx)
	if err != nil || !found.version.manyLocks() {
		return "", err
	}
	t.advisory.asking.Lock()
	defer t.advisory.asking.Unlock()
	if err := t.connect(ctx); err != nil {
		return "", t.fail("look at the advisory lock "+name, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout) // cancelling would cost all locks
	defer cancel()
	id, holder, err := t.holderOf(ctx, name)
	if isRefusedLock(err) || err == nil && id == t.advisory.self.id {
		return "", nil
	}
	return holder, t.fail("look at the advisory lock "+name, t.lose(err))
}
