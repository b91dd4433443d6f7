package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// recurringTime is how long the server may take to find the rows that recur.
const recurringTime = 4 * time.Second

// Recurring implements store.Table. Whatever is done to id keeps the server from going along the
// primary key, past all rows that have ended, until it has met enough that recur.
func (t *Table) Recurring(ctx context.Context, targets []string, after int64, limit int) (rows []*store.Seen, err error) {
	const op = "look for recurring jobs"
	if !t.config.Uses.Has(store.ColumnSchedule) {
		return nil, store.ErrNoSchedules
	}
	found, err := t.examined(ctx)
	if err != nil {
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
	args := make([]any, 0, len(names)+2)
	for _, name := range names {
		args = append(args, name)
	}
	schedule := quote(store.ColumnSchedule)
	query := found.within(recurringTime, found.seen()+" WHERE status IN ("+rule.Recurs+") AND target IN (?"+strings.Repeat(", ?", len(names)-1)+
		") AND "+schedule+" IS NOT NULL AND "+schedule+" <> '' AND id + 0 > ? ORDER BY id + 0 LIMIT ?")
	err = t.retry(ctx, func() error {
		rows = nil
		return t.each(ctx, query, append(args, after, limit), func(results *sql.Rows) error {
			row, err := found.scanSeen(results)
			rows = append(rows, row)
			return err
		})
	})
	if isTooSlow(err) {
		return nil, fmt.Errorf("%s: it takes the server longer than %v; an index on %s, or on status and target, would help", op, recurringTime, store.ColumnSchedule)
	}
	return rows, t.fail(op, err)
}

// Plans implements store.Table.
func (t *Table) Plans(ctx context.Context, ids []int64) (map[int64]*journal.Plan, error) {
	if len(ids) == 0 || !t.config.Uses.Any() {
		return nil, nil
	}
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	plans := make(map[int64]*journal.Plan, len(ids))
	err = t.retry(ctx, func() error {
		return t.each(ctx, "SELECT id"+found.planned()+" FROM "+found.table+" WHERE id IN ("+rule.List(ids)+")", nil, func(results *sql.Rows) error {
			var id int64
			var row journal.Row
			_, err := found.scan(results, &row, &id)
			plans[id] = row.Plan
			return err
		})
	})
	return plans, t.fail("read what jobs say about time", err)
}

// CountDue implements store.Table.
func (t *Table) CountDue(ctx context.Context, target string, before int64, most int) (counted store.Counted, err error) {
	const op = "count due jobs"
	if !t.config.Uses.Delays() {
		return counted, nil
	}
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
	if before <= 0 {
		before = math.MaxInt64
	}
	query := found.within(countTime, " COUNT(*), COALESCE(MIN(due), 0) FROM (SELECT "+quote(store.ColumnRunAt)+" AS due FROM "+found.table+
		" WHERE status = 'delayed' AND target = ? AND "+quote(store.ColumnRunAt)+" <= UNIX_TIMESTAMP() AND "+
		quote(store.ColumnRunAt)+" < ? ORDER BY "+quote(store.ColumnRunAt)+" LIMIT "+strconv.Itoa(most+1)+") AS some")
	err = t.retry(ctx, func() error {
		return t.db.QueryRowContext(ctx, query, target, before).Scan(&counted.Rows, &counted.Oldest)
	})
	if isTooSlow(err) {
		return store.Counted{}, fmt.Errorf("%s: it takes the server longer than %v; is there an index on status, target and %s?", op, countTime, store.ColumnRunAt)
	}
	return counted.UpTo(most), t.fail(op, err)
}

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
	err = t.each(ctx, found.within(recurringTime, found.seen()+" WHERE id IN ("+rule.List(ids)+") AND status = 'delayed'"), nil, func(results *sql.Rows) error {
		row, err := found.scanSeen(results)
		rows = append(rows, row)
		return err
	})
	slices.SortFunc(rows, func(a, b *store.Seen) int {
		return inOrderOfTime(delayedRow{a.Job, a.Plan.RunAt}, delayedRow{b.Job, b.Plan.RunAt})
	})
	return rows, err
}
