package sqlite

import (
	"context"
	"fmt"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Details implements store.Table.
func (t *Table) Details(ctx context.Context, ids []int64, targets []string, tail int) (map[int64]*store.Detail, error) {
	seen, err := t.examined(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	found := make(map[int64]*store.Detail, len(ids))
	query, args := t.detailQuery(seen, targets, tail)
	results, err := t.db.QueryContext(ctx, query+" WHERE "+anID+" AND id IN ("+rule.List(ids)+")", args...)
	if err != nil {
		return nil, t.fail("read jobs for somebody", err)
	}
	defer results.Close()
	for results.Next() {
		var said journal.Row
		row, err := rule.ScanDetail(func(fields ...any) error {
			_, err := seen.scan(results.Scan, &said, fields...)
			return err
		}, targets, tail)
		if err != nil {
			return nil, t.fail("read jobs for somebody", err)
		}
		row.Plan = said.Plan
		found[row.Job] = row
	}
	return found, t.fail("read jobs for somebody", results.Err())
}

// detailQuery selects rows with all that is known of them. Any value may stand in any column.
func (t *Table) detailQuery(found *layout, targets []string, tail int) (query string, args []any) {
	place := "0"
	if len(targets) > 0 {
		place = "CASE"
		for i, target := range targets {
			place += fmt.Sprintf(" WHEN target = ? THEN %d", i+1)
			args = append(args, target)
		}
		place += " ELSE 0 END"
	}
	text := func(column string) string { return "COALESCE(CAST(" + column + " AS TEXT), '')" }
	query = "SELECT id, COALESCE(CAST(target AS TEXT), 'null'), " + text("status") + ", " + text(quote(t.config.ClaimColumn)) + ", " +
		seconds("time_created") + ", " + seconds("time_started") + ", " + seconds("time_finished") + ", " +
		text("result") + ", " + text("return_code") + ", " + text(quote(store.SigColumn)) + ", " + place
	for _, column := range []string{"stdout", "stderr"} {
		query += fmt.Sprintf(", COALESCE(LENGTH(CAST(%s AS BLOB)), 0), COALESCE(SUBSTR(CAST(%s AS BLOB), %d), '')", column, column, -max(tail, 1))
	}
	return query + found.planned() + " FROM " + quote(t.config.Table), args
}

// Ahead implements store.Table.
func (t *Table) Ahead(ctx context.Context, waiters []store.Waiter, most int) (map[int64]store.Ahead, error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	ahead, err := rule.CountAhead(waiters, most, func(target string, from *int64, before int64, limit int) (n int, err error) {
		condition, args := rule.Stretch(target, from, before)
		query := "SELECT COUNT(*) FROM (SELECT 1 FROM " + quote(t.config.Table) + " WHERE " + condition + " AND " + anID + " LIMIT ?)"
		err = t.db.QueryRowContext(ctx, query, append(args, limit)...).Scan(&n)
		return n, err
	})
	return ahead, t.fail("count the jobs that wait before some", err)
}
