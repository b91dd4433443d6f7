package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Claim implements store.Table.
func (t *Table) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	err := t.claim(ctx, func(ctx context.Context, tx *sql.Tx, found *layout) ([]journal.Row, error) {
		if found.Unindexed != "" {
			return nil, rule.Misfit{Text: found.Unindexed}
		}
		var rows []journal.Row
		for _, target := range slices.Sorted(maps.Keys(room)) {
			if room[target] <= 0 {
				continue
			}
			more, err := t.claimable(ctx, tx, found, turn{target: target, room: room[target], except: except})
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
		}
		return rows, nil
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

// ClaimManual implements store.Table. No row is ever held by somebody else: transactions wait for
// each other.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	err = t.claim(ctx, func(ctx context.Context, tx *sql.Tx, found *layout) ([]journal.Row, error) {
		return t.named(ctx, tx, found, ids, targets)
	}, decide)
	return nil, t.failures.FailClaim("claim jobs by id", err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		rows, err = t.named(ctx, tx, found, ids, nil)
		return false, err
	})
	return rows, nil, t.fail("read jobs", err)
}

// claim chooses rows, has them decided and updates them, in one transaction. Where an update fails it is
// undone, whatever the error: SQLite has no doubtful commit. A trigger may raise any code, so each row is
// tried by itself then.
func (t *Table) claim(ctx context.Context, choose func(context.Context, *sql.Tx, *layout) ([]journal.Row, error), decide store.Decide) error {
	found, err := t.examined(ctx)
	if err != nil {
		return err
	}
	var verdicts []rule.Verdict
	var refused error
	err = t.claiming(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		rows, err := choose(ctx, tx, found)
		if err != nil {
			return false, err
		}
		events, err := decide(rows)
		if err != nil {
			return false, err
		}
		if verdicts, err = rule.Verdicts(rows, events); err != nil {
			return false, err
		}
		refused = t.write(ctx, tx, found, verdicts)
		return len(verdicts) > 0, refused
	})
	if !aboutRows(refused) {
		return err
	}
	named, _ := t.probe(context.WithoutCancel(ctx), verdicts) // none, where which rows it are is not known
	return &store.RefusedRows{Rows: named, Err: refused}
}

// write updates the rows as decided.
func (t *Table) write(ctx context.Context, tx *sql.Tx, found *layout, verdicts []rule.Verdict) error {
	for _, verdict := range verdicts {
		set, args := rule.Set(verdict.Write(&found.Shape), quote)
		_, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET "+set+
			" WHERE id IN ("+rule.List(verdict.Jobs)+") AND "+verdict.Guard(), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// named reads the rows of the given ids.
func (t *Table) named(ctx context.Context, tx *sql.Tx, found *layout, ids []int64, targets []string) ([]journal.Row, error) {
	var rows []journal.Row
	ids = slices.Sorted(slices.Values(ids))
	const most = 5000 // in a statement, whose length is limited
	for some := range slices.Chunk(slices.Compact(ids), most) {
		more, err := t.lines(ctx, tx, found, targets, " WHERE "+anID+" AND id IN ("+rule.List(some)+") ORDER BY id")
		if err != nil {
			return nil, err
		}
		rows = append(rows, rule.Rows(more)...)
	}
	return rows, nil
}

// lines reads rows. A row's target is the one of targets that the column takes it for, else what the
// row says. No content of the table makes it fail: in SQLite any value may stand in any column.
func (t *Table) lines(ctx context.Context, tx *sql.Tx, found *layout, targets []string, query string, args ...any) ([]rule.Line, error) {
	text, all := found.SelectRow(targets)
	results, err := tx.QueryContext(ctx, text+query, append(all, args...)...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	var rows []rule.Line
	for results.Next() {
		var row rule.Line
		var place int
		if err := found.ScanRow(results.Scan, &row, &row.Job, &place); err != nil {
			return nil, err
		}
		if place > 0 {
			row.Target = targets[place-1]
		}
		rows = append(rows, row)
	}
	return rows, results.Err()
}

// probe tries what a claim makes of its rows, row by row, and undoes it. No row is held by somebody
// else: transactions wait for each other.
func (t *Table) probe(ctx context.Context, verdicts []rule.Verdict) (map[int64]string, error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	return rule.ProbeEach(verdicts, func(single rule.Verdict) (why string, err error) {
		err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
			if failure := t.write(ctx, tx, found, []rule.Verdict{single}); failure != nil {
				why = failure.Error()
			}
			return false, nil
		})
		return why, err
	})
}
