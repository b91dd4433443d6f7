package mysql

import (
	"context"
	"database/sql"
	"slices"

	"github.com/cenkalti/backoff/v5"

	"jobd/store"
)

// application is one call of Apply. It implements rule.Updater.
type application struct {
	table    *Table
	layout   *layout
	changes  []store.Change
	updates  []update // of the changes, as far as they were reduced
	outcomes []store.Outcome
	tries    uint // of a transaction that loses against others
}

// chosen are the updates of some changes.
func (a *application) chosen(some []int) []update {
	updates := make([]update, len(some))
	for i, index := range some {
		updates[i] = a.updates[index]
	}
	return updates
}

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

func newApplication(t *Table, found *layout, changes []store.Change) *application {
	return &application{
		table: t, layout: found, changes: changes, tries: tries,
		updates: found.updates(changes), outcomes: make([]store.Outcome, len(changes)),
	}
}

// waitedOnce makes a lock wait that ended in vain the end of the tries.
func waitedOnce(err error) error {
	if isLockWait(err) {
		return backoff.Permanent(err)
	}
	return err
}
