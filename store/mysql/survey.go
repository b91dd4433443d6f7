package mysql

import (
	"context"
	"database/sql"
	"strings"

	"jobd/journal"
)

// UnderWay implements store.Table.
func (t *Table) UnderWay(ctx context.Context, owner string, targets []string) ([]journal.Row, error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	column := quote(t.config.ClaimColumn)
	query := t.selectRow() + " WHERE status IN ('accepted', 'running') AND (" + column + " LIKE ?"
	args := []any{owner + "%"}
	if len(targets) > 0 {
		query += " OR COALESCE(" + column + ", '') = '' AND target IN (?" + strings.Repeat(", ?", len(targets)-1) + ")"
		for _, target := range targets {
			args = append(args, target)
		}
	}
	var rows []journal.Row
	err := t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, err = t.lock(ctx, conn, selection{query: query + ") ORDER BY id", args: args})
			return false, err
		})
	})
	return rows, t.fail("look for jobs under way", err)
}
