package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Recurring implements store.Table. The signs before id keep SQLite from going along the table, past
// all rows that have ended.
func (t *Table) Recurring(ctx context.Context, targets []string, after int64, limit int) (rows []*store.Seen, err error) {
	const op = "look for recurring jobs"
	if !t.config.Uses.Has(store.ColumnSchedule) {
		return nil, store.ErrNoSchedules
	}
	found, err := t.examined(ctx)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	args := make([]any, 0, len(targets)+2)
	for _, name := range targets {
		args = append(args, name)
	}
	return t.seen(ctx, found, op, " WHERE status IN ("+rule.Recurs+") AND target IN (?"+strings.Repeat(", ?", len(targets)-1)+
		") AND schedule IS NOT NULL AND schedule <> '' AND "+anID+" AND +id > ? ORDER BY +id LIMIT ?", append(args, after, limit)...)
}

// seen reads rows with what they say about time.
func (t *Table) seen(ctx context.Context, found *layout, op, which string, args ...any) (rows []*store.Seen, err error) {
	results, err := t.db.QueryContext(ctx, t.selectSeen(found)+which, args...)
	if err != nil {
		return nil, t.fail(op, err)
	}
	defer results.Close()
	for results.Next() {
		row, err := found.scanSeen(results.Scan)
		if err != nil {
			return nil, t.fail(op, err)
		}
		rows = append(rows, row)
	}
	return rows, t.fail(op, results.Err())
}

// Delayed implements store.Table.
func (t *Table) Delayed(ctx context.Context, targets []string, limit int) (rows []*store.Seen, err error) {
	if !t.config.Uses.Delays() {
		return nil, store.ErrNoDelays
	}
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	for _, target := range targets { // each in the order that the index has
		some, err := t.seen(ctx, found, "look for delayed jobs", " WHERE status = 'delayed' AND target = ? AND "+anID+" ORDER BY run_at LIMIT ?", target, limit)
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
		slices.SortFunc(rows, func(a, b *store.Seen) int {
			return cmp.Or(cmp.Compare(a.Plan.RunAt, b.Plan.RunAt), cmp.Compare(a.Job, b.Job))
		})
		rows = rows[:min(len(rows), limit)]
	}
	return rows, nil
}

// Plans implements store.Table.
func (t *Table) Plans(ctx context.Context, ids []int64) (map[int64]*journal.Plan, error) {
	const op = "read what jobs say about time"
	if len(ids) == 0 || !t.config.Uses.Any() {
		return nil, nil
	}
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	results, err := t.db.QueryContext(ctx, "SELECT id"+found.planned()+" FROM "+quote(t.config.Table)+" WHERE "+anID+" AND id IN ("+rule.List(ids)+")")
	if err != nil {
		return nil, t.fail(op, err)
	}
	defer results.Close()
	plans := make(map[int64]*journal.Plan, len(ids))
	for results.Next() {
		var id int64
		var row journal.Row
		if _, err := found.scan(results.Scan, &row, &id); err != nil {
			return nil, t.fail(op, err)
		}
		plans[id] = row.Plan
	}
	return plans, t.fail(op, results.Err())
}

// CountDue implements store.Table.
func (t *Table) CountDue(ctx context.Context, target string, before int64, most int) (counted store.Counted, err error) {
	if !t.config.Uses.Delays() {
		return counted, nil
	}
	if _, err := t.examined(ctx); err != nil {
		return counted, err
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	err = t.db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(MIN(due), 0) FROM (SELECT CAST(run_at AS INTEGER) AS due FROM "+quote(t.config.Table)+
		" WHERE status = 'delayed' AND target = ? AND run_at <= unixepoch() AND run_at < ? ORDER BY run_at LIMIT ?)", target, before, most+1).
		Scan(&counted.Rows, &counted.Oldest)
	return counted.UpTo(most), t.fail("count due jobs", err)
}
