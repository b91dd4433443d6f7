package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// tellsOfTime are the columns that a Plan is read from, in its order, with a comma before each. Any
// value may stand in any column.
func (t *Table) tellsOfTime() string {
	var list strings.Builder
	for _, name := range []string{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnMaxAttempts, store.ColumnTimeout} {
		expression := "0"
		if t.config.Uses.Has(name) {
			expression = seconds(name)
		}
		list.WriteString(", " + expression)
	}
	for _, name := range []string{store.ColumnSchedule, store.ColumnTimeZone} {
		expression := "''"
		if t.config.Uses.Has(name) {
			expression = fmt.Sprintf("COALESCE(SUBSTR(CAST(%s AS TEXT), 1, %d), '')", name, rule.LongestPlanText)
		}
		list.WriteString(", " + expression)
	}
	return list.String()
}

// Recurring implements store.Table. The signs before id keep SQLite from going along the table, past
// all rows that have ended.
func (t *Table) Recurring(ctx context.Context, targets []string, after int64, limit int) (rows []*store.Seen, err error) {
	const op = "look for recurring jobs"
	if !t.config.Uses.Has(store.ColumnSchedule) {
		return nil, store.ErrNoSchedules
	}
	if _, err := t.examined(ctx); err != nil || len(targets) == 0 {
		return nil, err
	}
	args := make([]any, 0, len(targets)+2)
	for _, name := range targets {
		args = append(args, name)
	}
	return t.seen(ctx, op, " WHERE status IN ("+rule.Recurs+") AND target IN (?"+strings.Repeat(", ?", len(targets)-1)+
		") AND schedule IS NOT NULL AND schedule <> '' AND "+anID+" AND +id > ? ORDER BY +id LIMIT ?", append(args, after, limit)...)
}

// seen reads rows with what they say about time.
func (t *Table) seen(ctx context.Context, op, which string, args ...any) (rows []*store.Seen, err error) {
	const text = "CAST(sig AS TEXT)"
	results, err := t.db.QueryContext(ctx, "SELECT id, COALESCE(CAST(target AS TEXT), 'null'), COALESCE(CAST(status AS TEXT), ''), COALESCE(CAST("+quote(t.config.ClaimColumn)+" AS TEXT), ''), "+
		seconds("time_created")+", "+seconds("time_started")+", "+seconds("time_finished")+
		", COALESCE(CAST(result AS TEXT), ''), CASE typeof(return_code) WHEN 'integer' THEN return_code END, CASE status WHEN 'delayed' THEN COALESCE("+text+", '') ELSE '' END"+t.tellsOfTime()+
		" FROM "+quote(t.config.Table)+which, args...)
	if err != nil {
		return nil, t.fail(op, err)
	}
	defer results.Close()
	for results.Next() {
		row := store.Seen{Row: journal.Row{Plan: &journal.Plan{}}}
		if err := results.Scan(append([]any{
			&row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Started, &row.Finished, &row.Result, &row.Code, &row.Signal,
		}, rule.PlanFields(row.Plan)...)...); err != nil {
			return nil, t.fail(op, err)
		}
		rows = append(rows, &row)
	}
	return rows, t.fail(op, results.Err())
}

// Delayed implements store.Table.
func (t *Table) Delayed(ctx context.Context, targets []string, limit int) (rows []*store.Seen, err error) {
	if !t.config.Uses.Delays() {
		return nil, store.ErrNoDelays
	}
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	for _, target := range targets { // each in the order that the index has
		some, err := t.seen(ctx, "look for delayed jobs", " WHERE status = 'delayed' AND target = ? AND "+anID+" ORDER BY run_at LIMIT ?", target, limit)
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
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	results, err := t.db.QueryContext(ctx, "SELECT id"+t.tellsOfTime()+" FROM "+quote(t.config.Table)+" WHERE "+anID+" AND id IN ("+rule.List(ids)+")")
	if err != nil {
		return nil, t.fail(op, err)
	}
	defer results.Close()
	plans := make(map[int64]*journal.Plan, len(ids))
	for results.Next() {
		var id int64
		var plan journal.Plan
		if err := results.Scan(append([]any{&id}, rule.PlanFields(&plan)...)...); err != nil {
			return nil, t.fail(op, err)
		}
		plans[id] = &plan
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
