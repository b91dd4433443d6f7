package mysql

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"jobd/store"
	"jobd/store/internal/rule"
)

// batchLimit is how many bytes of updates go into one transaction, where a single one is not
// bigger.
const batchLimit = 4 << 20

// Apply implements store.Table.
func (t *Table) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	run := &application{Application: rule.NewApplication(changes), table: t, layout: found, tries: tries}
	if err := run.all(ctx); err != nil {
		return nil, t.fail("apply changes", err)
	}
	return run.Outcomes, nil
}

// application is one call of Apply. It implements rule.Updater.
type application struct {
	rule.Application
	table  *Table
	layout *layout
	tries  uint // of a transaction that loses against others
}

// all sends the updates in batches that the server takes, then looks at the
// rows that are not as they should be.
func (a *application) all(ctx context.Context) error {
	var batch []int
	size := 0
	for _, next := range a.updates(a.All()) {
		if len(batch) > 0 && size+next.size() > min(batchLimit, a.layout.budget()) {
			if err := rule.Divide(ctx, a, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch = append(batch, next.indexes...)
		size += next.size()
	}
	if err := rule.Divide(ctx, a, batch); err != nil {
		return err
	}
	return a.Judge(a.layout.Uses, func(ids []int64) (found map[int64]*rule.Found, why string, err error) {
		err = a.table.retryUpTo(ctx, a.tries, func() error {
			found, err = a.table.find(ctx, a.layout, ids)
			return waitedOnce(err)
		})
		if isLockWait(err) {
			return nil, err.Error(), nil
		}
		return found, "", err
	})
}

// Try implements rule.Updater. A lock wait that ended in vain tells that somebody holds rows, not
// which: they are passed by then, and for a while from then on without waiting first.
func (a *application) Try(ctx context.Context, some []int) error {
	skips := a.layout.version.skipsLocked()
	if skips && a.table.locked.lately() {
		return a.skipLocked(ctx, some)
	}
	err := a.run(ctx, a.updates(some))
	if skips && isLockWait(err) {
		a.table.locked.note()
		return a.skipLocked(ctx, some)
	}
	return err
}

// Sort implements rule.Updater.
func (a *application) Sort(err error) rule.Fault {
	a.tries = 2 // the rows that keep losing are to be found soon
	switch {
	case isOfValues(err):
		a.table.layout.Store(nil) // the columns are not what they were taken for
		return rule.Values
	case isOfRule(err):
		return rule.Rule
	case number(err) == 0 && (isUnreachable(err) || isUnusable(err)):
		return rule.Whole
	case isDubious(err):
		return rule.Dubious
	}
	return rule.Moment
}

// Ask implements rule.Updater.
func (a *application) Ask(ctx context.Context) error { return a.table.Check(ctx) }

// run applies a batch in one transaction. Where an update met some of its rows only, each is
// updated by itself to know which: that changes nothing in the others.
func (a *application) run(ctx context.Context, batch []update) error {
	matched, err := a.execute(ctx, batch)
	if err != nil {
		return err
	}
	var unclear []update
	for i, one := range batch {
		if matched[i] != 0 && matched[i] != int64(len(one.jobs)) {
			unclear = append(unclear, one.split()...)
			continue
		}
		a.note(one, matched[i] > 0)
	}
	if len(unclear) == 0 {
		return nil
	}
	return a.run(ctx, unclear)
}

// note notes what an update did.
func (a *application) note(one update, matched bool) {
	for _, index := range one.indexes {
		a.Met(index, matched)
	}
}

// execute sends updates as one transaction and tells how
// many rows each of them matched. A lock is waited for once.
func (a *application) execute(ctx context.Context, batch []update) (matched []int64, err error) {
	err = a.table.retryUpTo(ctx, a.tries, func() error {
		return waitedOnce(a.table.once(ctx, func(conn *sql.Conn) (bool, error) {
			matched, err = a.layout.transact(ctx, conn, batch)
			return err == nil, err
		}))
	})
	return matched, err
}

// transact is one try of execute. Cancelling it is harmless, as it can be applied again.
func (l *layout) transact(ctx context.Context, conn *sql.Conn, batch []update) ([]int64, error) {
	if len(batch) == 1 { // a transaction by itself
		return l.send(ctx, conn, statement{l.query(batch[0]), batch[0].args})
	}
	return l.follow(ctx, conn, batch, statement{query: begin})
}

// follow sends updates and commits, after what the transaction begins with, where it has not begun
// yet.
func (l *layout) follow(ctx context.Context, conn *sql.Conn, batch []update, beginning ...statement) ([]int64, error) {
	statements := slices.Grow(beginning, len(batch)+1)
	for _, one := range batch {
		statements = append(statements, statement{l.query(one), one.args})
	}
	matched, err := l.send(ctx, conn, append(statements, commit)...)
	if err != nil {
		return nil, err
	}
	last := len(matched) - 1 // that of COMMIT
	return matched[last-len(batch) : last], nil
}

// waitedOnce makes a lock wait that ended in vain the end of the tries.
func waitedOnce(err error) error {
	if isLockWait(err) {
		return backoff.Permanent(err)
	}
	return err
}

// skipLocked applies some changes and passes by the rows that somebody else has locked. It takes a
// round trip more: one asks which rows can be locked, and locks them, the other updates those.
func (a *application) skipLocked(ctx context.Context, some []int) error {
	var free map[int64]bool
	var updates []update
	var matched []int64
	err := a.table.retryUpTo(ctx, a.tries, func() error {
		return waitedOnce(a.table.once(ctx, func(conn *sql.Conn) (committed bool, err error) {
			updates, matched = nil, nil
			if free, err = a.lockFree(ctx, conn, some); err != nil || len(free) == 0 {
				return false, err
			}
			if updates = a.among(some, free); len(updates) == 0 {
				return false, nil
			}
			matched, err = a.layout.follow(ctx, conn, updates)
			return err == nil, err
		}))
	})
	if err != nil {
		return err
	}
	for i, one := range updates {
		a.note(one, matched[i] > 0)
	}
	for _, index := range some {
		if !free[a.Changes[index].Job] {
			a.Hide(index)
		}
	}
	return nil
}

// lockFree opens a transaction and locks those rows of the changes that nobody else holds.
func (a *application) lockFree(ctx context.Context, conn *sql.Conn, some []int) (free map[int64]bool, err error) {
	ids := make([]int64, len(some))
	for i, index := range some {
		ids[i] = a.Changes[index].Job
	}
	locked, err := idsOf(ctx, conn, begin+"SELECT id FROM "+a.layout.Table+" WHERE id IN ("+rule.List(ids)+") FOR UPDATE SKIP LOCKED")
	free = make(map[int64]bool, len(locked))
	for _, id := range locked {
		free[id] = true
	}
	return free, err
}

// among are the updates of those changes whose rows are in free, one for each.
func (a *application) among(some []int, free map[int64]bool) (updates []update) {
	for _, index := range some {
		if free[a.Changes[index].Job] {
			updates = append(updates, a.update(index))
		}
	}
	return updates
}

// lockMemory remembers when a row was last found locked. For a while from then on nobody waits for
// locks first, or a row that stays locked would cost every batch the wait.
type lockMemory struct{ until atomic.Pointer[time.Time] }

// lockMemoryLasts is longer than the mirror lets pass before it tries a held row again.
const lockMemoryLasts = time.Minute

func (m *lockMemory) note() {
	until := time.Now().Add(lockMemoryLasts)
	m.until.Store(&until)
}

func (m *lockMemory) lately() bool {
	until := m.until.Load()
	return until != nil && time.Now().Before(*until)
}
