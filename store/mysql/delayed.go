package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Delayed implements store.Table. The index alone tells which rows come first; these are read then.
func (t *Table) Delayed(ctx context.Context, targets []string, limit int) (rows []*store.Seen, err error) {
	const op = "look for delayed jobs"
	if !t.config.Uses.Delays() {
		return nil, store.ErrNoDelays
	}
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := t.comparable(ctx, targets)
	if err != nil || len(names) == 0 {
		return nil, t.fail(op, err)
	}
	err = t.indexed(ctx, func(found *layout) error {
		return t.retry(ctx, func() error {
			first, err := t.firstDelayed(ctx, found, names, limit)
			if err != nil || len(first) == 0 {
				rows = nil
				return err
			}
			rows, err = t.readDelayed(ctx, found, first)
			return err
		})
	})
	if isTooSlow(err) {
		return nil, fmt.Errorf("%s: it takes the server longer than %v; is there an index on status, target and %s?", op, recurringTime, store.ColumnRunAt)
	}
	return rows, t.fail(op, err)
}

// delayedRow is a row, and when it is due.
type delayedRow struct{ id, due int64 }

// inOrderOfTime is the order in which rows are due.
func inOrderOfTime(a, b delayedRow) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id))
}

// firstDelayed finds the rows of some targets that are due first.
func (t *Table) firstDelayed(ctx context.Context, found *layout, targets []string, limit int) (ids []int64, err error) {
	var first []delayedRow
	most := strconv.Itoa(limit)
	for some := range slices.Chunk(targets, waitingLimit) {
		query, args := "", make([]any, 0, len(some))
		for _, target := range some {
			if query != "" {
				query += " UNION ALL "
			}
			query += "(SELECT id, " + found.number(store.ColumnRunAt) + " AS due FROM " + found.table + force(found.byDue) +
				" WHERE status = 'delayed' AND target = ? ORDER BY run_at LIMIT " + most + ")"
			args = append(args, target)
		}
		query = found.within(recurringTime, " id, due FROM ("+query+") AS some ORDER BY due, id LIMIT "+most)
		err := t.each(ctx, query, args, func(results *sql.Rows) error {
			var one delayedRow
			err := results.Scan(&one.id, &one.due)
			first = append(first, one)
			return err
		})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(first, inOrderOfTime)
		first = first[:min(len(first), limit)]
	}
	for _, one := range first {
		ids = append(ids, one.id)
	}
	return ids, nil
}

// readDelayed reads those of some rows that are delayed still.
func (t *Table) readDelayed(ctx context.Context, found *layout, ids []int64) (rows []*store.Seen, err error) {
	err = t.each(ctx, found.within(recurringTime, t.seen(found)+" WHERE id IN ("+rule.List(ids)+") AND status = 'delayed'"), nil, func(results *sql.Rows) error {
		row, err := scanSeen(results)
		rows = append(rows, row)
		return err
	})
	slices.SortFunc(rows, func(a, b *store.Seen) int {
		return inOrderOfTime(delayedRow{a.Job, a.Plan.RunAt}, delayedRow{b.Job, b.Plan.RunAt})
	})
	return rows, err
}
