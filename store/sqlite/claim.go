package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Claim implements store.Table.
func (t *Table) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	return t.claimWaiting(ctx, room, "", except, decide)
}

// ClaimBehind implements store.Table.
func (t *Table) ClaimBehind(ctx context.Context, target string, behind int64, room int, except []int64, decide store.Decide) error {
	return t.claimWaiting(ctx, map[string]int{target: room}, " AND id > "+strconv.FormatInt(behind, 10), except, decide)
}

// claimWaiting claims waiting rows: all, or those that a further condition chooses.
func (t *Table) claimWaiting(ctx context.Context, room map[string]int, further string, except []int64, decide store.Decide) error {
	err := t.claim(ctx, func(ctx context.Context, tx *sql.Tx) ([]journal.Row, error) {
		var rows []journal.Row
		for _, target := range slices.Sorted(maps.Keys(room)) {
			if room[target] <= 0 {
				continue
			}
			more, err := t.waitingOf(ctx, tx, target, further, room[target], except)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
		return rule.Distinct(rows), nil
	}, func(rows []journal.Row) ([]journal.Event, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		return decide(rows)
	})
	return t.failures.FailClaim("claim waiting jobs", err)
}

// anID is the condition that a row's id is one to us.
const anID = "typeof(id) = 'integer' AND id <> 0"

// waitingOf reads the waiting rows of one target. Where there are fewer than wanted, those are
// looked for that no worker can claim.
func (t *Table) waitingOf(ctx context.Context, tx *sql.Tx, target, further string, room int, except []int64) ([]journal.Row, error) {
	rows, err := t.read(ctx, tx, nil, "status = 'waiting' AND target = ? AND "+anID+further+" AND id NOT IN ("+rule.List(except)+") ORDER BY id LIMIT ?", target, room)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Target = target // the column's collation may have matched another spelling
	}
	if len(rows) < room {
		err = t.reportOdd(ctx, tx, target)
	}
	return rows, err
}

// oddLimit is how many rows that can't be claimed are looked at in one go.
const oddLimit = 300

// reportOdd tells of the waiting rows of a target that no worker can claim.
func (t *Table) reportOdd(ctx context.Context, tx *sql.Tx, target string) error {
	results, err := tx.QueryContext(ctx, "SELECT quote(id) FROM "+quote(t.config.Table)+
		" WHERE status = 'waiting' AND target = ? AND NOT ("+anID+") LIMIT ?", target, oddLimit)
	if err != nil {
		return err
	}
	defer results.Close()
	for results.Next() {
		var id string
		if err := results.Scan(&id); err != nil {
			return err
		}
		t.odd.Report(id, target, t.config.OnOdd)
	}
	return results.Err()
}

// ClaimManual implements store.Table. No row is ever held by somebody else: transactions wait for
// each other.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	err = t.claim(ctx, func(ctx context.Context, tx *sql.Tx) ([]journal.Row, error) {
		return t.named(ctx, tx, ids, targets)
	}, decide)
	return nil, t.failures.FailClaim("claim jobs by id", err)
}

// Retry implements store.Table.
func (t *Table) Retry(ctx context.Context, ids []int64, decide store.Decide) (locked []int64, err error) {
	err = t.claim(ctx, func(ctx context.Context, tx *sql.Tx) ([]journal.Row, error) {
		return t.named(ctx, tx, ids, nil)
	}, rule.RetryAll(decide))
	return nil, t.failures.FailClaim("retry jobs", err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, nil, err
	}
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		rows, err = t.named(ctx, tx, ids, nil)
		return false, err
	})
	return rows, nil, t.fail("read jobs", err)
}

// claim chooses rows, has them decided and updates them, in one transaction. An update that fails
// is looked into once the transaction is undone.
func (t *Table) claim(ctx context.Context, choose func(context.Context, *sql.Tx) ([]journal.Row, error), decide store.Decide) error {
	found, err := t.examined(ctx)
	if err != nil {
		return err
	}
	var refused *refusal
	err = t.claiming(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		rows, err := choose(ctx, tx)
		if err != nil {
			return false, err
		}
		events, err := decide(rows)
		if err != nil {
			return false, err
		}
		verdicts, err := rule.Verdicts(rows, events)
		if err != nil {
			return false, err
		}
		if err := t.write(ctx, tx, found, verdicts); err != nil {
			refused = &refusal{verdicts, err}
			return false, err
		}
		return len(verdicts) > 0, nil
	})
	if refused == nil {
		return err
	}
	return refused.explain(context.WithoutCancel(ctx), t)
}

// write updates the rows as decided.
func (t *Table) write(ctx context.Context, tx *sql.Tx, found *layout, verdicts []rule.Verdict) error {
	for _, verdict := range verdicts {
		set, args := rule.Set(verdict.Write(writing{t.config.ClaimColumn, t.config.Uses, found}), quote)
		_, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET "+set+
			" WHERE id IN ("+rule.List(verdict.Jobs)+") AND "+verdict.Guard(), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// named reads the rows of the given ids.
func (t *Table) named(ctx context.Context, tx *sql.Tx, ids []int64, targets []string) ([]journal.Row, error) {
	var rows []journal.Row
	ids = slices.Sorted(slices.Values(ids))
	const most = 5000 // in a statement, whose length is limited
	for some := range slices.Chunk(slices.Compact(ids), most) {
		more, err := t.read(ctx, tx, targets, anID+" AND id IN ("+rule.List(some)+") ORDER BY id")
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// read reads the rows that a condition chooses. A row's target is the one of targets that the
// column takes it for, else what the row says. No content of the table makes it fail: in SQLite any
// value may stand in any column.
func (t *Table) read(ctx context.Context, tx *sql.Tx, targets []string, condition string, args ...any) ([]journal.Row, error) {
	place, all := "0", make([]any, 0, len(targets)+len(args))
	if len(targets) > 0 {
		var cases strings.Builder
		for i, target := range targets {
			cases.WriteString(" WHEN target = ? THEN " + strconv.Itoa(i+1))
			all = append(all, target)
		}
		place = "CASE" + cases.String() + " ELSE 0 END"
	}
	results, err := tx.QueryContext(ctx, "SELECT id, COALESCE(CAST(target AS TEXT), 'null'), COALESCE(CAST(status AS TEXT), ''), "+
		"COALESCE(CAST("+quote(t.config.ClaimColumn)+" AS TEXT), ''), "+seconds("time_created")+", "+seconds("time_finished")+", COALESCE(CAST(result AS TEXT), ''), "+place+" FROM "+quote(t.config.Table)+" WHERE "+condition, append(all, args...)...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	var rows []journal.Row
	for results.Next() {
		var row journal.Row
		var place int
		if err := results.Scan(&row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Finished, &row.Result, &place); err != nil {
			return nil, err
		}
		if place > 0 {
			row.Target = targets[place-1]
		}
		rows = append(rows, row)
	}
	return rows, results.Err()
}
