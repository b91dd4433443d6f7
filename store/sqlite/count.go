package sqlite

import (
	"cmp"
	"context"

	"jobd/store"
)

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
