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
			rows, err = t.lock(ctx, conn, found, begin, selection{query: query, args: args})
			return false, err
		})
	})
	return rows, t.fail(op, err)
}

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
	condition, args := rule.Unclaimed(names, rule.Expressions{
		Created: found.created.seconds(), Finished: found.finished.seconds(), Now: "UNIX_TIMESTAMP()",
	}, t.config.Uses, created, after, limit)
	query := "SELECT id FROM " + t.name.quoted() + " WHERE " + condition
	err = t.retry(ctx, func() error {
		ids = nil
		return t.each(ctx, query, args, func(results *sql.Rows) error { return scanID(results, &ids) })
	})
	return ids, t.fail(op, err)
}
