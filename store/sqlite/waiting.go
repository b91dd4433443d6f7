package sqlite

import (
	"context"
	"slices"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// Waiting implements store.Table. It reads what is committed, beside any writer: what another
// transaction is about to insert is for nobody to see before. A claim waits for such a transaction,
// so none of its rows is hidden from a claim that comes after it.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) (waiting []string, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	query := "SELECT EXISTS (SELECT 1 FROM " + quote(t.config.Table) + " WHERE status = 'waiting' AND target = ? AND " + anID +
		" AND id NOT IN (" + rule.List(except) + "))"
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		var found bool
		if err := t.db.QueryRowContext(ctx, query, target).Scan(&found); err != nil {
			return nil, t.fail("look for waiting jobs", err)
		}
		if found {
			waiting = append(waiting, target)
		}
	}
	return waiting, nil
}

// NextDue implements store.Table.
func (t *Table) NextDue(context.Context, []string, []int64) (journal.Due, error) {
	return journal.Due{}, nil
}
