package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Details implements store.Table.
func (t *Table) Details(ctx context.Context, ids []int64, targets []string, tail int) (map[int64]*store.Detail, error) {
	const op = "read jobs for somebody"
	columns, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.fail(op, err)
	}
	found := make(map[int64]*store.Detail, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	query, args := t.detailQuery(columns, names, tail)
	err = t.retry(ctx, func() error {
		clear(found)
		return t.each(ctx, query+" WHERE id IN ("+rule.List(ids)+")", args, func(results *sql.Rows) error {
			var planned journal.Row
			row, err := rule.ScanDetail(func(fields ...any) error {
				_, err := columns.scan(results, &planned, fields...)
				return err
			}, names, tail)
			row.Plan = planned.Plan
			if err == nil {
				found[row.Job] = row
			}
			return err
		})
	})
	return found, t.fail(op, err)
}

// detailQuery selects rows with all that is known of them. Any column may be NULL. A character may
// have up to four bytes, so that the end of a text has a byte at least for each that is asked for.
func (t *Table) detailQuery(l *layout, names []string, tail int) (query string, args []any) {
	place := "0"
	if len(names) > 0 {
		place = "COALESCE(FIELD(target" + strings.Repeat(", ?", len(names)) + "), 0)"
	}
	for _, name := range names {
		args = append(args, name)
	}
	query = "SELECT id, COALESCE(target, 'null'), COALESCE(status, ''), COALESCE(" + quote(l.owner.name) + ", ''), " +
		l.created.seconds() + ", " + l.started.seconds() + ", " + l.finished.seconds() +
		", COALESCE(result, ''), COALESCE(return_code, ''), COALESCE(" + quote(store.SigColumn) + ", ''), " + place
	for _, column := range []string{"stdout", "stderr"} {
		query += fmt.Sprintf(", COALESCE(OCTET_LENGTH(%s), 0), COALESCE(RIGHT(%s, %d), '')", column, column, tail)
	}
	return query + l.planned() + " FROM " + l.table, args
}

// Ahead implements store.Table. A name that the column can't hold has no rows.
func (t *Table) Ahead(ctx context.Context, waiters []store.Waiter, most int) (map[int64]store.Ahead, error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ahead, err := rule.CountAhead(waiters, most, func(target string, from *int64, before int64, limit int) (n int, err error) {
		condition, args := rule.Stretch(target, from, before)
		err = t.indexed(ctx, func(found *layout) error {
			query := found.within(aheadTime, " COUNT(*) FROM (SELECT 1 FROM "+found.table+found.hint()+" WHERE "+condition+" LIMIT ?) AS stretch")
			return t.retry(ctx, func() error {
				return t.each(ctx, query, append(args, limit), func(results *sql.Rows) error { return results.Scan(&n) })
			})
		})
		return n, err
	})
	return ahead, t.fail("count the jobs that wait before some", err)
}

// aheadTime is how long the server may take for one count.
const aheadTime = 2 * time.Second
