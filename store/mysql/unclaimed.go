package mysql

import (
	"context"
	"database/sql"
	"strings"
)

// Unclaimed implements store.Table.
func (t *Table) Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) (ids []int64, err error) {
	const op = "look for rows that nobody has claimed"
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	names, err := t.comparable(ctx, targets)
	if err != nil || len(names) == 0 {
		return nil, t.fail(op, err)
	}
	args := []any{after, created}
	for _, name := range names {
		args = append(args, name)
	}
	query := "SELECT id FROM " + t.name.quoted() + " WHERE status IN ('waiting', 'manual') AND id > ? AND " + found.created.seconds() +
		" < ? AND target IN (?" + strings.Repeat(", ?", len(names)-1) + ") ORDER BY id LIMIT ?"
	err = t.retry(ctx, func() error {
		ids = nil
		return t.each(ctx, query, append(args[:len(args):len(args)], limit), func(results *sql.Rows) error { return scanID(results, &ids) })
	})
	return ids, t.fail(op, err)
}
