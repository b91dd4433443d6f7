package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// Unclaimed implements store.Table.
func (t *Table) Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) (ids []int64, err error) {
	if _, err := t.examined(ctx); err != nil || len(targets) == 0 {
		return nil, err
	}
	condition := anID + " AND status IN ('waiting', 'manual') AND id > ? AND " + seconds("time_created") +
		" < ? AND target IN (?" + strings.Repeat(", ?", len(targets)-1) + ") ORDER BY id LIMIT ?"
	args := []any{after, created}
	for _, target := range targets {
		args = append(args, target)
	}
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		rows, err := t.read(ctx, tx, nil, condition, append(args, limit)...)
		for _, row := range rows {
			ids = append(ids, row.Job)
		}
		return false, err
	})
	return ids, t.fail("look for rows that nobody has claimed", err)
}
