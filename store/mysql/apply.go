package mysql

import (
	"context"
	"database/sql"
	"slices"

	"jobd/store"
	"jobd/store/internal/rule"
)

// batchLimit is how many bytes of updates go into one transaction, where a single one is not bigger.
const batchLimit = 4 << 20

// Apply implements store.Table.
func (t *Table) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	for _, change := range changes {
		if err := rule.Check(change); err != nil {
			return nil, err
		}
	}
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	run := newApplication(t, found, changes)
	if err := run.all(ctx); err != nil {
		return nil, t.fail("apply changes", err)
	}
	return run.outcomes, nil
}

// application is one call of Apply. It implements rule.Updater.
type application struct {
	table    *Table
	layout   *layout
	changes  []store.Change
	updates  []update // of the changes, as far as they were reduced
	outcomes []store.Outcome
	tries    uint // of a transaction that loses against others
	proven   bool // the table itself was asked since a first error, and works
}

func newApplication(t *Table, found *layout, changes []store.Change) *application {
	a := &application{
		table: t, layout: found, changes: changes, tries: tries,
		updates: make([]update, len(changes)), outcomes: make([]store.Outcome, len(changes)),
	}
	for i, change := range changes {
		a.updates[i] = found.update(change, i, whole)
	}
	return a
}

// all sends the updates in batches that the server takes, then looks at the
// rows that are not as they should be.
func (a *application) all(ctx context.Context) error {
	var batch []int
	size := 0
	for index, next := range a.updates {
		if len(batch) > 0 && size+next.size() > min(batchLimit, a.layout.budget()) {
			if err := rule.Divide(ctx, a, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch = append(batch, index)
		size += next.size()
	}
	if err := rule.Divide(ctx, a, batch); err != nil {
		return err
	}
	return a.look(ctx)
}

// Try implements rule.Updater. A lock wait that ended in vain tells that somebody holds rows, not which: they are passed
// by then, and for a while from then on without waiting first.
func (a *application) Try(ctx context.Context, some []int) error {
	skips := a.layout.skipsLocked()
	if skips && a.table.locked.lately() {
		return a.passing(ctx, some)
	}
	err := a.run(ctx, grouped(a.chosen(some)))
	if skips && isLockWait(err) {
		a.table.locked.met()
		return a.passing(ctx, some)
	}
	return err
}

// chosen are the updates of some changes.
func (a *application) chosen(some []int) []update {
	updates := make([]update, len(some))
	for i, index := range some {
		updates[i] = a.updates[index]
	}
	return updates
}

// run applies a batch in one transaction. Where an update met some of its rows only, each is updated by itself to
// know which: that changes nothing in the others.
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

// Fates of changes whose rows have still to be looked at.
const (
	missed store.Fate = -1 - iota // the update met no row
	hidden                        // the row is locked, or there is none
)

// note notes what an update did.
func (a *application) note(one update, matched bool) {
	outcome := store.Outcome{Fate: store.Applied, Note: one.reduction.note()}
	if !matched {
		outcome = store.Outcome{Fate: missed}
	}
	for _, index := range one.indexes {
		a.outcomes[index] = outcome
	}
}

// Sort implements rule.Updater. An error that only its number makes one of the whole table is the rows' where the table,
// asked without any row, works.
func (a *application) Sort(ctx context.Context, err error) (rule.Fault, error) {
	a.tries = 2 // the rows that keep losing are to be found soon
	switch {
	case isOfValues(err):
		return rule.Values, nil
	case isOfRule(err):
		return rule.Rule, nil
	case number(err) == 0:
		return rule.Whole, err
	case isDubious(err) && !a.proven:
		if known := a.table.Check(ctx); known != nil {
			return rule.Whole, known
		}
		a.proven = true
	}
	return rule.Moment, nil
}

// Reduce implements rule.Updater.
func (a *application) Reduce(index int, err error) bool {
	a.table.layout.Store(nil) // the columns are not what they were taken for
	former := a.updates[index].reduction
	if former == everything {
		return false
	}
	a.updates[index] = a.layout.update(a.changes[index], index, former.after(number(err)))
	return true
}

// Settle implements rule.Updater.
func (a *application) Settle(index int, outcome store.Outcome) { a.outcomes[index] = outcome }

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

// follow sends updates and commits, after what the transaction begins with, where it has not begun yet.
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
