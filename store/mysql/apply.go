package mysql

import (
	"context"
	"database/sql"

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
	run := &application{table: t, layout: found, changes: changes, outcomes: make([]store.Outcome, len(changes))}
	if err := run.all(ctx); err != nil {
		return nil, t.fail("apply changes", err)
	}
	return run.outcomes, nil
}

// application is one call of Apply.
type application struct {
	table    *Table
	layout   *layout
	changes  []store.Change
	outcomes []store.Outcome
}

// all sends the updates in batches that the server takes, then looks at the
// rows that none of them met.
func (a *application) all(ctx context.Context) error {
	updates := make([]update, len(a.changes))
	for i := range a.changes {
		updates[i] = a.layout.update(a.changes[i], i, whole)
	}
	var batch []update
	size := 0
	for _, next := range grouped(updates) {
		if len(batch) > 0 && size+next.size() > min(batchLimit, a.layout.budget()) {
			if err := a.send(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch = append(batch, next)
		size += next.size()
	}
	if err := a.send(ctx, batch); err != nil {
		return err
	}
	return a.look(ctx)
}

// send applies a batch in one transaction. Where the server refuses it for good, its halves are applied
// instead, until the update at fault stands alone: it must not hold up the others.
func (a *application) send(ctx context.Context, batch []update) error {
	if len(batch) == 0 {
		return nil
	}
	matched, err := a.table.execute(ctx, a.layout, batch)
	switch {
	case err == nil:
		return a.settleAll(ctx, batch, matched)
	case !isRefused(err):
		return err
	case len(batch) > 1:
		half := len(batch) / 2
		if err := a.send(ctx, batch[:half]); err != nil {
			return err
		}
		return a.send(ctx, batch[half:])
	case len(batch[0].jobs) > 1:
		return a.send(ctx, batch[0].split())
	default:
		return a.mend(ctx, batch[0], err)
	}
}

// settleAll notes what updates did. Where one met some of its rows only, each is updated by itself to know
// which: that changes nothing in the others.
func (a *application) settleAll(ctx context.Context, batch []update, matched []int64) error {
	var unclear []update
	for i, one := range batch {
		if matched[i] == 0 || matched[i] == int64(len(one.jobs)) {
			a.settle(one, matched[i] > 0)
			continue
		}
		unclear = append(unclear, one.split()...)
	}
	return a.send(ctx, unclear)
}

// mend sends an update that was refused again without what it was refused for.
func (a *application) mend(ctx context.Context, refused update, cause error) error {
	a.table.layout.Store(nil) // the columns are not what they were taken for
	if refused.reduction == everything {
		a.outcomes[refused.indexes[0]] = store.Outcome{Fate: store.Refused, Note: cause.Error()}
		return nil
	}
	less := refused.reduction.after(number(cause))
	index := refused.indexes[0]
	return a.send(ctx, []update{a.layout.update(a.changes[index], index, less)})
}

// missed marks a change whose row has still to be looked at.
const missed store.Fate = -1

// settle notes what an update did.
func (a *application) settle(one update, matched bool) {
	outcome := store.Outcome{Fate: store.Applied, Note: one.reduction.note()}
	if !matched {
		outcome = store.Outcome{Fate: missed}
	}
	for _, index := range one.indexes {
		a.outcomes[index] = outcome
	}
}

// look judges the changes whose updates met no row.
func (a *application) look(ctx context.Context) error {
	var ids []int64
	for i, change := range a.changes {
		if a.outcomes[i].Fate == missed && !rule.Release(change) {
			ids = append(ids, change.Job)
		}
	}
	found, err := a.table.find(ctx, ids)
	if err != nil {
		return err
	}
	for i, change := range a.changes {
		if a.outcomes[i].Fate == missed {
			a.outcomes[i] = rule.Judge(change, found[change.Job])
		}
	}
	return nil
}

// execute sends updates as one transaction and tells how
// many rows each of them matched.
func (t *Table) execute(ctx context.Context, found *layout, batch []update) (matched []int64, err error) {
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (bool, error) {
			matched, err = t.transact(ctx, conn, found, batch)
			return err == nil, err
		})
	})
	return matched, err
}

// transact is one try of execute. Cancelling it is harmless, as it can be applied again.
func (t *Table) transact(ctx context.Context, conn *sql.Conn, found *layout, batch []update) ([]int64, error) {
	if len(batch) == 1 { // a transaction by itself
		return found.send(ctx, conn, statement{found.query(batch[0]), batch[0].args})
	}
	statements := []statement{{query: begin}}
	for _, one := range batch {
		statements = append(statements, statement{found.query(one), one.args})
	}
	matched, err := found.send(ctx, conn, append(statements, commit)...)
	if err != nil {
		return nil, err
	}
	last := len(matched) - 1 // that of COMMIT
	return matched[last-len(batch) : last], nil
}

// find reads rows as Judge needs them; those that do not exist are absent.
func (t *Table) find(ctx context.Context, ids []int64) (map[int64]*rule.Found, error) {
	found := make(map[int64]*rule.Found, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := t.db.QueryContext(ctx, "SELECT id, target, status, COALESCE("+quote(t.config.ClaimColumn)+", ''), "+
		"time_started, time_finished, COALESCE(result, '') FROM "+t.name.quoted()+" WHERE id IN ("+rule.List(ids)+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row rule.Found
		if err := rows.Scan(&row.Job, &row.Target, &row.Status, &row.Owner, &row.Started, &row.Finished, &row.Result); err != nil {
			return nil, err
		}
		found[row.Job] = &row
	}
	return found, rows.Err()
}
