package sqlite

import (
	"context"
	"database/sql"
	"strconv"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// UnderWay implements store.Table.
func (t *Table) UnderWay(ctx context.Context, owner string, targets []string) (rows []journal.Row, err error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	condition, args := rule.UnderWay(quote(t.config.ClaimColumn), owner, targets)
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		rows, err = t.read(ctx, tx, found, nil, anID+" AND "+condition, args...)
		return false, err
	})
	return rows, t.fail("look for jobs under way", err)
}

// Unclaimed implements store.Table.
func (t *Table) Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) (ids []int64, err error) {
	found, err := t.examined(ctx)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	condition, args := rule.Unclaimed(targets, rule.Expressions{
		Created: seconds("time_created"), Finished: seconds("time_finished"), Now: strconv.FormatInt(now(), 10),
	}, t.config.Uses, created, after, limit)
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		rows, err := t.read(ctx, tx, found, nil, anID+" AND "+condition, args...)
		for _, row := range rows {
			ids = append(ids, row.Job)
		}
		return false, err
	})
	return ids, t.fail("look for rows that nobody has claimed", err)
}
