package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Look implements store.Table.
func (t *Table) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	seen, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]*store.Seen, len(ids))
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for _, id := range ids {
			row, err := t.find(ctx, tx, seen, id)
			if err != nil {
				return false, err
			}
			if row != nil {
				found[id] = row
			}
		}
		return false, nil
	})
	return found, t.fail("look at jobs", err)
}

// find reads the row of a job as Judge needs it; nil: it is gone. Any column may be NULL, and
// columns of numbers may hold texts, which count as 0 where they begin with no number.
func (t *Table) find(ctx context.Context, tx *sql.Tx, found *layout, job int64) (*rule.Found, error) {
	row, err := found.scanSeen(tx.QueryRowContext(ctx, t.selectSeen(found)+" WHERE id = ?", job).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return row, err
}

// selectSeen begins a statement that reads what scanSeen takes in.
func (t *Table) selectSeen(found *layout) string {
	text := func(column, none string) string { return "COALESCE(CAST(" + column + " AS TEXT), '" + none + "')" }
	return "SELECT id, " + text("target", "null") + ", " + text("status", "") + ", " + text(quote(t.config.ClaimColumn), "") + ", " +
		seconds("time_created") + ", " + seconds("time_started") + ", " + seconds("time_finished") + ", " + text("result", "") +
		", CASE typeof(return_code) WHEN 'integer' THEN return_code END, " + found.signal() + found.planned() + " FROM " + quote(t.config.Table)
}

func (l *layout) scanSeen(scan func(...any) error) (*store.Seen, error) {
	row := &store.Seen{}
	_, err := l.scan(scan, &row.Row, &row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Started, &row.Finished,
		&row.Result, &row.Code, &row.Signal)
	return row, err
}

// seconds is an expression for the unix seconds in a column.
func seconds(column string) string { return "COALESCE(CAST(" + column + " AS INTEGER), 0)" }

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

// Waiting implements store.Table. It reads what is committed, beside any writer: what another
// transaction is about to insert is for nobody to see before. A claim waits for such a transaction,
// so none of its rows is hidden from a claim that comes after it. Rows that are due wait, too.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) (waiting []string, err error) {
	seen, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	among := func(index, condition string) string {
		return "EXISTS (SELECT 1 FROM " + quote(t.config.Table) + by(index) + " WHERE " + condition + " AND id NOT IN (" + rule.List(except) + "))"
	}
	query, args := "SELECT "+among(seen.byID, "status = 'waiting' AND target = ? AND "+anID), []any{nil}
	if seen.uses.Delays() {
		query, args = query+" OR "+among(seen.byDue, isDue), []any{nil, nil, now()}
	}
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		var found bool
		args[0], args[min(1, len(args)-1)] = target, target
		if err := t.db.QueryRowContext(ctx, query, args...).Scan(&found); err != nil {
			return nil, t.fail("look for waiting jobs", err)
		}
		if found {
			waiting = append(waiting, target)
		}
	}
	return waiting, nil
}

// CountWaiting implements store.Table. The oldest row is the waiting one with the lowest id, or the
// one that is due for longest.
func (t *Table) CountWaiting(ctx context.Context, target string, most int) (counted store.Counted, err error) {
	found, err := t.examined(ctx)
	if err != nil {
		return counted, err
	}
	count := func(index, condition, when, order string, args ...any) (rows int, oldest int64, err error) {
		some := " FROM " + quote(t.config.Table) + by(index) + " WHERE " + condition
		all := append(append(args, most+1), args...)
		err = t.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM (SELECT 1"+some+" LIMIT ?)),"+
			" COALESCE((SELECT "+when+some+" ORDER BY "+order+" LIMIT 1), 0)", all...).Scan(&rows, &oldest)
		return rows, oldest, err
	}
	counted.Rows, counted.Oldest, err = count(found.byID, "status = 'waiting' AND target = ?", seconds("time_created"), "id", target)
	if err == nil && found.uses.Delays() {
		var due int
		var since int64
		due, since, err = count(found.byDue, isDue, found.number(store.ColumnRunAt, noTime), "run_at", target, now())
		counted.Rows += due
		if since != 0 {
			counted.Oldest = min(cmp.Or(counted.Oldest, since), since)
		}
	}
	return counted.UpTo(most), t.fail("count waiting jobs", err)
}

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
