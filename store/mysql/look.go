package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Look implements store.Table.
func (t *Table) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	columns, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var found map[int64]*store.Seen
	err = t.retry(ctx, func() (err error) {
		found, err = t.find(ctx, columns, ids)
		return err
	})
	return found, t.fail("look at jobs", err)
}

// find reads rows as Judge needs them; those that do not exist are absent. Any column may be NULL,
// and numbers may be beyond an int64.
func (t *Table) find(ctx context.Context, l *layout, ids []int64) (map[int64]*rule.Found, error) {
	found := make(map[int64]*rule.Found, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := t.db.QueryContext(ctx, "SELECT"+l.seen()+" WHERE id IN ("+rule.List(ids)+")")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := l.scanSeen(rows)
		if err != nil {
			return nil, err
		}
		found[row.Job] = row
	}
	return found, rows.Err()
}

// seen is what scanSeen reads of a row, and the table that it is read from.
func (l *layout) seen() string {
	return " id, COALESCE(target, 'null'), COALESCE(status, ''), COALESCE(" + quote(l.owner.name) + ", ''), " +
		l.created.seconds() + ", " + l.started.seconds() + ", " + l.finished.seconds() +
		", COALESCE(result, ''), CAST(return_code AS SIGNED), IF(" + l.hasEnded() + ", COALESCE(sig, ''), '')" + l.planned() +
		" FROM " + l.table
}

func (l *layout) scanSeen(results *sql.Rows) (*store.Seen, error) {
	row := &store.Seen{}
	_, err := l.scan(results, &row.Row, &row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Started, &row.Finished,
		&row.Result, &row.Code, &row.Signal)
	return row, err
}

// hasEnded is the condition that the result columns, sig among them, are those of an end. They are
// in a row that comes back, too.
func (t *times) hasEnded() string {
	if t.uses.Delays() {
		return "status IN ('done','delayed')"
	}
	return "status = 'done'"
}

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

// Waiting implements store.Table. It asks twice in one round trip. What is committed shows rows
// that somebody's open transaction has changed and may leave as they were; what is not committed
// yet shows rows that somebody is about to insert, or to set back. Rows that are due wait, too.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) ([]string, error) {
	const op = "look for waiting jobs"
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.fail(op, err)
	}
	waiting := map[string]bool{}
	for some := range slices.Chunk(names, waitingLimit) {
		err := t.indexed(ctx, func(found *layout) error {
			return t.retry(ctx, func() error { return t.lookWaiting(ctx, found, some, except, waiting) })
		})
		if err != nil {
			return nil, t.fail(op, err)
		}
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// lookWaiting notes for which of the targets there are rows that wait or are due.
func (t *Table) lookWaiting(ctx context.Context, found *layout, targets []string, except []int64, waiting map[string]bool) error {
	var look selection
	but := t.but(except)
	for i, target := range targets {
		if i > 0 {
			look.query += " UNION ALL "
		}
		begin := "(SELECT " + strconv.Itoa(i) + " AS place FROM " + t.name.quoted()
		look.query += begin + found.hint() + " WHERE status = 'waiting' AND target = ?" + but + " LIMIT 1)"
		look.args = append(look.args, target)
		if found.uses.Delays() {
			look.query += " UNION ALL " + begin + force(found.byDue) + " WHERE " + isDue + but + " LIMIT 1)"
			look.args = append(look.args, target)
		}
	}
	query, args := readUncommitted+look.query+"; "+look.query, slices.Concat(look.args, look.args)
	return t.once(ctx, func(conn *sql.Conn) (bool, error) {
		results, err := conn.QueryContext(ctx, query, args...)
		if err != nil {
			return false, err
		}
		defer results.Close()
		for {
			for results.Next() {
				var place int
				if err := results.Scan(&place); err != nil {
					return false, err
				}
				waiting[targets[place]] = true
			}
			if !results.NextResultSet() {
				return results.Err() == nil, results.Err()
			}
		}
	})
}

// countTime is how long the server may take to count.
const countTime = 5 * time.Second

// CountWaiting implements store.Table. It reads as many entries of the index as it counts, and one
// row.
func (t *Table) CountWaiting(ctx context.Context, target string, most int) (counted store.Counted, err error) {
	const op = "count waiting jobs"
	if _, err := t.examined(ctx); err != nil {
		return counted, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return counted, err
	}
	defer done()
	names, err := t.comparable(ctx, []string{target})
	if err != nil || len(names) == 0 { // no row can have such a name
		return counted, t.fail(op, err)
	}
	err = t.indexed(ctx, func(found *layout) error {
		counted, err = t.countRows(ctx, found, target, most)
		return err
	})
	if isTooSlow(err) {
		return store.Counted{}, fmt.Errorf("%s: it takes the server longer than %v; is there an index on status and target?", op, countTime)
	}
	return counted.UpTo(most), t.fail(op, err)
}

// countRows counts the rows of a target that wait, and where the table has such rows those that are
// due, one more than most at most of each. The oldest is the waiting one with the lowest id, or the
// due one that is due for longest.
func (t *Table) countRows(ctx context.Context, found *layout, target string, most int) (counted store.Counted, err error) {
	count := func(hint, condition, when, order string) (rows int, oldest int64, err error) {
		query := found.countingQuery(hint+" WHERE "+condition, when, order, most)
		err = t.retry(ctx, func() error {
			return t.db.QueryRowContext(ctx, query, target, target).Scan(&rows, &oldest)
		})
		return rows, oldest, err
	}
	counted.Rows, counted.Oldest, err = count(found.hint(), "status = 'waiting' AND target = ?", found.created.seconds(), "id")
	if err != nil || !found.uses.Delays() {
		return counted, err
	}
	due, since, err := count(force(found.byDue), isDue, found.number(store.ColumnRunAt), "run_at")
	counted.Rows += due
	counted.Oldest = earlier(counted.Oldest, since)
	return counted, err
}

// countingQuery counts the rows of a target that a condition is true of, one more than most at
// most, and reads a time of the first of them. The target's name is its argument, twice.
func (l *layout) countingQuery(rows, when, order string, most int) string {
	return l.within(countTime, " (SELECT COUNT(*) FROM (SELECT 1 FROM "+l.table+rows+" LIMIT "+strconv.Itoa(most+1)+") AS some),"+
		" COALESCE((SELECT "+when+" FROM "+l.table+rows+" ORDER BY "+order+" LIMIT 1), 0)")
}

// within is a SELECT that the server gives up after a time. Who asks may have gone before: that only
// closes the connection, and without an index the server would read the whole table on.
func (l *layout) within(limit time.Duration, selects string) string {
	query := "SELECT /*+ MAX_EXECUTION_TIME(" + strconv.FormatInt(limit.Milliseconds(), 10) + ") */" + selects
	if l.version.mariaDB && l.version.since(nil, []int{10, 1, 2}) { // which takes the hint for a comment
		query = "SET STATEMENT max_statement_time = " + strconv.Itoa(int(limit.Seconds())) + " FOR " + query
	}
	return query
}

// isTooSlow tells that the server gave up a query because of its time.
func isTooSlow(err error) bool {
	n := number(err)
	return n == errStatementTime || n == errExecutionTime
}

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
