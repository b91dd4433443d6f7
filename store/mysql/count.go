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
	found, err := t.examined(ctx)
	if err != nil {
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
	query := found.countingQuery(most)
	err = t.retry(ctx, func() error {
		return t.db.QueryRowContext(ctx, query, target, target).Scan(&counted.Rows, &counted.Oldest)
	})
	if isTooSlow(err) {
		return store.Counted{}, fmt.Errorf("%s: it takes the server longer than %v; is there an index on status and target?", op, countTime)
	}
	return counted.UpTo(most), t.fail(op, err)
}

// countingQuery counts the waiting rows of a target, one more than most at most, and reads when the
// one with the lowest id was made. Both conditions have the target's name as their argument.
func (l *layout) countingQuery(most int) string {
	const waiting = " WHERE status = 'waiting' AND target = ?"
	return l.within(countTime, " (SELECT COUNT(*) FROM (SELECT 1 FROM "+l.table+waiting+" LIMIT "+strconv.Itoa(most+1)+") AS some),"+
		" COALESCE((SELECT "+l.created.seconds()+" FROM "+l.table+waiting+" ORDER BY id LIMIT 1), 0)")
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
