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
	err := t.claim(ctx, func(ctx context.Context, tx *sql.Tx) ([]journal.Row, error) {
		var rows []journal.Row
		for _, target := range slices.Sorted(maps.Keys(room)) {
			if room[target] <= 0 {
				continue
			}
			more, err := t.read(ctx, tx, "status = 'waiting' AND target = ? AND id NOT IN ("+rule.List(except)+") ORDER BY id LIMIT ?", target, room[target])
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
	return t.fail("claim waiting jobs", err)
}

// ClaimManual implements store.Table.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	err = t.claim(ctx, func(ctx context.Context, tx *sql.Tx) ([]journal.Row, error) {
		return t.named(ctx, tx, ids)
	}, decide)
	return nil, t.fail("claim jobs by id", err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, nil, err
	}
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		rows, err = t.named(ctx, tx, ids)
		return false, err
	})
	return rows, nil, t.fail("read jobs", err)
}

// claim chooses rows, has them decided and updates them, in one transaction.
func (t *Table) claim(ctx context.Context, choose func(context.Context, *sql.Tx) ([]journal.Row, error), decide store.Decide) error {
	if _, err := t.examined(ctx); err != nil {
		return err
	}
	return t.claiming(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
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
		return len(verdicts) > 0, t.settle(ctx, tx, verdicts)
	})
}

// settle updates the rows as decided.
func (t *Table) settle(ctx context.Context, tx *sql.Tx, verdicts []rule.Verdict) error {
	for _, verdict := range verdicts {
		assignments, args := "status = ?", []any{verdict.Status}
		if verdict.Token != "" {
			assignments += ", " + quote(t.config.ClaimColumn) + " = ?"
			args = append(args, verdict.Token)
		}
		if verdict.Start != 0 {
			assignments += ", time_started = ?"
			args = append(args, verdict.Start)
		}
		_, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET "+assignments+
			" WHERE id IN ("+rule.List(verdict.Jobs)+")", args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// named reads the rows of the given ids.
func (t *Table) named(ctx context.Context, tx *sql.Tx, ids []int64) ([]journal.Row, error) {
	return t.read(ctx, tx, "id IN ("+rule.List(ids)+") ORDER BY id")
}

// read reads the rows that a condition chooses.
func (t *Table) read(ctx context.Context, tx *sql.Tx, condition string, args ...any) ([]journal.Row, error) {
	results, err := tx.QueryContext(ctx, "SELECT id, target, status, COALESCE("+quote(t.config.ClaimColumn)+", '') FROM "+
		quote(t.config.Table)+" WHERE "+condition, args...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	var rows []journal.Row
	for results.Next() {
		var row journal.Row
		if err := results.Scan(&row.Job, &row.Target, &row.Status, &row.Owner); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, results.Err()
}
