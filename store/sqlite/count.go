package sqlite

import (
	"context"

	"jobd/store"
)

// CountWaiting implements store.Table.
func (t *Table) CountWaiting(ctx context.Context, target string, most int) (counted store.Counted, err error) {
	if _, err := t.examined(ctx); err != nil {
		return counted, err
	}
	waiting := " FROM " + quote(t.config.Table) + " WHERE status = 'waiting' AND target = ?"
	err = t.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM (SELECT 1"+waiting+" LIMIT ?)),"+
		" COALESCE((SELECT "+seconds("time_created")+waiting+" ORDER BY id LIMIT 1), 0)", target, most+1, target).
		Scan(&counted.Rows, &counted.Oldest)
	return counted.UpTo(most), t.fail("count waiting jobs", err)
}
