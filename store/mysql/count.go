package mysql

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"jobd/store"
)

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
