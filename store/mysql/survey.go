package mysql

import (
	"context"
	"database/sql"
	"strings"

	"jobd/journal"
)

// UnderWay implements store.Table.
func (t *Table) UnderWay(ctx context.Context, owner string, targets []string) ([]journal.Row, error) {
	const op = "look for jobs under way"
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.fail(op, err)
	}
	column := quote(t.config.ClaimColumn)
	query := t.selectRow(0, found) + " WHERE status IN ('accepted', 'running') AND (" + column + " LIKE ?"
	args := []any{owner + "%"}
	if len(names) > 0 {
		query += " OR COALESCE(" + column + ", '') = '' AND target IN (?" + strings.Repeat(", ?", len(names)-1) + ")"
		for _, name := range names {
			args = append(args, name)
		}
	}
	var rows []journal.Row
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, err = t.lock(ctx, conn, begin, selection{query: query + ") ORDER BY id", args: args})
			return false, err
		})
	})
	return rows, t.fail(op, err)
}
