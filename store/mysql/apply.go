package mysql

import (
	"context"

	"jobd/store"
	"jobd/store/internal/rule"
)

// batchLimit is how many bytes of updates go into one transaction, where a single one is not
// bigger.
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

// Try implements rule.Updater. A lock wait that ended in vain tells that somebody holds rows, not
// which: they are passed by then, and for a while from then on without waiting first.
func (a *application) Try(ctx context.Context, some []int) error {
	skips := a.layout.version.skipsLocked()
	if skips && a.table.locked.lately() {
		return a.skipLocked(ctx, some)
	}
	err := a.run(ctx, grouped(a.chosen(some)))
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
