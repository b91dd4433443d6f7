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
	if err := rule.CheckAll(changes); err != nil {
		return nil, err
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

// Sort implements rule.Updater.
func (a *application) Sort(err error) rule.Fault {
	a.tries = 2 // the rows that keep losing are to be found soon
	switch {
	case isOfValues(err):
		return rule.Values
	case isOfRule(err):
		return rule.Rule
	case number(err) == 0:
		return rule.Whole
	case isDubious(err):
		return rule.Dubious
	}
	return rule.Moment
}

// Ask implements rule.Updater.
func (a *application) Ask(ctx context.Context) error { return a.table.Check(ctx) }

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

// Note implements rule.Updater.
func (a *application) Note(index int, outcome store.Outcome) { a.outcomes[index] = outcome }

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
