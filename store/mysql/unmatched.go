package mysql

import (
	"context"

	"jobd/store"
	"jobd/store/internal/rule"
)

// look judges the changes whose updates met no row, and tells what the refused ones' rows hold.
// When reading fails for now, as where somebody has locked the whole table since, the changes are
// tried again.
func (a *application) look(ctx context.Context) error {
	var ids []int64
	for i, change := range a.changes {
		if fate := a.outcomes[i].Fate; fate == hidden || fate == store.Refused || fate == missed && !rule.Release(change) {
			ids = append(ids, change.Job)
		}
	}
	if len(ids) == 0 {
		a.judge(nil)
		return nil
	}
	var found map[int64]*rule.Found
	err := a.table.retryUpTo(ctx, a.tries, func() (err error) {
		found, err = a.table.find(ctx, a.layout, ids)
		return waitedOnce(err)
	})
	if isLockWait(err) {
		a.holdUnseen(err)
		return nil
	}
	if err == nil {
		a.judge(found)
	}
	return err
}

// judge gives the changes that were looked at their outcomes.
func (a *application) judge(found map[int64]*rule.Found) {
	for i, change := range a.changes {
		row := found[change.Job]
		switch outcome := &a.outcomes[i]; {
		case outcome.Fate == hidden && row != nil:
			*outcome = store.Outcome{Fate: store.Held, Note: rowLocked}
			a.table.locked.note()
		case outcome.Fate == hidden, outcome.Fate == missed:
			*outcome = rule.Judge(change, row, a.table.config.Uses)
		case outcome.Fate == store.Refused && row != nil:
			outcome.Found = &row.Row
		}
	}
}

// holdUnseen leaves the changes whose rows could not be read for later.
func (a *application) holdUnseen(err error) {
	for i, change := range a.changes {
		switch outcome := &a.outcomes[i]; {
		case outcome.Fate == missed && rule.Release(change):
			*outcome = rule.Judge(change, nil, a.table.config.Uses)
		case outcome.Fate == hidden, outcome.Fate == missed:
			*outcome = store.Outcome{Fate: store.Held, Note: err.Error()}
		}
	}
}

// rowLocked is why a row is held, in words for the operator.
const rowLocked = "the row is locked by somebody else"
