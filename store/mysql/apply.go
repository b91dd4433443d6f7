package mysql

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"jobd/store"
	"jobd/store/internal/rule"
)

// batchLimit is how many bytes of updates go into one transaction, where a single one is not
// bigger.
const batchLimit = 4 << 20

// Apply implements store.Table.
func (t *Table) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	run := &application{Application: rule.NewApplication(changes), table: t, layout: found, tries: tries}
	run.Try, run.Sort, run.Check = run.try, run.sort, t.Check
	if err = run.all(ctx); err == nil {
		err = run.Judge(ctx, &t.Reader)
	}
	return run.Outcomes, t.Fail("apply changes", err)
}

// application is one call of Apply.
type application struct {
	rule.Application
	table  *Table
	layout *layout
	tries  uint // of a transaction that loses against others
}

// all sends the updates in batches that the server takes.
func (a *application) all(ctx context.Context) error {
	var batch []int
	size := 0
	for _, next := range a.updates(a.All()) {
		more := next.size()
		if len(batch) > 0 && size+more > min(batchLimit, a.layout.budget()) {
			if err := a.Divide(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch = append(batch, next.indexes...)
		size += more
	}
	return a.Divide(ctx, batch)
}

// try applies some changes. A lock wait that ended in vain tells that somebody holds rows, not
// which: they are passed by then, and for a while from then on without waiting first.
func (a *application) try(ctx context.Context, some []int) error {
	skips := a.layout.version.skipsLocked()
	skip := skips && time.Now().UnixNano() < a.table.lockedUntil.Load()
	err := a.apply(ctx, some, skip)
	if skips && !skip && isLockWait(err) {
		a.table.lockedUntil.Store(time.Now().Add(lockMemoryLasts).UnixNano())
		err = a.apply(ctx, some, true)
	}
	return err
}

// sort tells what an error of try says.
func (a *application) sort(err error) (fault rule.Fault, certain bool) {
	a.tries = 2 // so that it soon finds the rows that keep losing
	if fault, certain = sortError(err); fault == rule.Values {
		a.table.layout.Store(nil) // the columns are not what they were taken for
	}
	return fault, certain
}

// apply applies some changes in one transaction. Cancelling it does no harm, since it can be done again.
// To skip rows that somebody else has locked, it takes one round trip more: the first asks which rows can
// be locked, and locks them, the second updates those. If an update has met only some of its rows, each
// row is updated by itself, which tells the rows that are met, and changes nothing in the others.
func (a *application) apply(ctx context.Context, some []int, skip bool) error {
	var batch []update
	var locked []int
	var matched []int64
	err := a.table.retryUpTo(ctx, a.tries, func() error {
		return a.table.once(ctx, func(conn *sql.Conn) (committed bool, err error) {
			free, beginning := some, []rule.Statement{{Query: begin}}
			if skip {
				if free, locked, err = a.lockFree(ctx, conn, some); err != nil {
					return false, err
				}
				beginning = nil
			}
			batch = a.updates(free)
			matched, err = a.layout.transact(ctx, conn, beginning, batch)
			return err == nil, err
		})
	})
	if err != nil {
		return err
	}
	for _, index := range locked {
		a.Hide(index)
	}
	for i, one := range batch {
		if isClear := matched[i] == 0 || matched[i] == int64(len(one.jobs)); isClear {
			for _, index := range one.indexes {
				a.Met(index, matched[i] > 0)
			}
			continue
		}
		for _, index := range one.indexes {
			if err := a.apply(ctx, []int{index}, skip); err != nil {
				return err
			}
		}
	}
	return nil
}

// transact sends updates and commits, after what the transaction begins with, where it has not begun
// yet, and tells how many rows each of them matched.
func (l *layout) transact(ctx context.Context, conn *sql.Conn, statements []rule.Statement, batch []update) (
	matched []int64, err error,
) {
	if len(batch) == 1 && len(statements) > 0 { // a transaction by itself
		return l.send(ctx, conn, batch[0].statement())
	}
	for _, one := range batch {
		statements = append(statements, one.statement())
	}
	matched, err = l.send(ctx, conn, append(statements, commit)...)
	if err != nil {
		return nil, err
	}
	last := len(matched) - 1 // that of COMMIT
	return matched[last-len(batch) : last], nil
}

// lockFree opens a transaction and locks those rows of the changes that nobody else holds.
func (a *application) lockFree(ctx context.Context, conn *sql.Conn, some []int) (free, locked []int, err error) {
	ids := make([]int64, len(some))
	for i, index := range some {
		ids[i] = a.Changes[index].Job
	}
	query := begin + "; SELECT id FROM " + a.layout.Table + " WHERE id IN (" + rule.List(ids) + ") FOR UPDATE SKIP LOCKED"
	found, err := idsOf(ctx, conn, query)
	for i, index := range some {
		if slices.Contains(found, ids[i]) {
			free = append(free, index)
		} else {
			locked = append(locked, index)
		}
	}
	return free, locked, err
}

// lockMemoryLasts is for how long nobody waits for locks first, when a row was found locked: one that
// stays locked would cost every batch the wait. It is longer than the mirror lets pass before it tries a
// held row again.
const lockMemoryLasts = time.Minute
