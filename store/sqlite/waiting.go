package sqlite

import (
	"context"
	"slices"

	"jobd/store/internal/rule"
)

// Waiting implements store.Table. It reads what is committed, beside any writer: what another
// transaction is about to insert is for nobody to see before. A claim waits for such a transaction,
// so none of its rows is hidden from a claim that comes after it. Rows that are due wait, too.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) (waiting []string, err error) {
	seen, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	among := func(index, condition string) string {
		return "EXISTS (SELECT 1 FROM " + quote(t.config.Table) + by(index) + " WHERE " + condition + " AND id NOT IN (" + rule.List(except) + "))"
	}
	query, args := "SELECT "+among(seen.byID, "status = 'waiting' AND target = ? AND "+anID), []any{nil}
	if seen.uses.Delays() {
		query, args = query+" OR "+among(seen.byDue, isDue), []any{nil, nil, now()}
	}
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		var found bool
		args[0], args[min(1, len(args)-1)] = target, target
		if err := t.db.QueryRowContext(ctx, query, args...).Scan(&found); err != nil {
			return nil, t.fail("look for waiting jobs", err)
		}
		if found {
			waiting = append(waiting, target)
		}
	}
	return waiting, nil
}
