package mysql

import (
	"context"
	"database/sql"

	"jobd/journal"
	"jobd/store/internal/rule"
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
	condition, args := rule.UnderWay(quote(t.config.ClaimColumn), owner, names)
	query := t.selectRow(0, found) + " WHERE " + condition
	var rows []journal.Row
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, err = t.lock(ctx, conn, begin, selection{query: query, args: args})
			return false, err
		})
	})
	return rows, t.fail(op, err)
}
