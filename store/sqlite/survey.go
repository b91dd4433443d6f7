package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"jobd/journal"
)

// UnderWay implements store.Table.
func (t *Table) UnderWay(ctx context.Context, owner string, targets []string) (rows []journal.Row, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	column := quote(t.config.ClaimColumn)
	condition := "status IN ('accepted', 'running') AND (" + column + " LIKE ?"
	args := []any{owner + "%"}
	if len(targets) > 0 {
		condition += " OR COALESCE(" + column + ", '') = '' AND target IN (?" + strings.Repeat(", ?", len(targets)-1) + ")"
		for _, target := range targets {
			args = append(args, target)
		}
	}
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		rows, err = t.read(ctx, tx, condition+") ORDER BY id", args...)
		return false, err
	})
	return rows, t.fail("look for jobs under way", err)
}
