package sqlite

import (
	"context"
	"database/sql"
	"errors"
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
			lines, err := t.lines(ctx, tx, found, found.Choose(rule.Ask{Target: target, Room: room[target]}, except), nil)
			if err != nil {
				return nil, err
			}
			if found.Uses.Ordered() {
				lines = rule.InOrder(lines, room[target])
			}
			rows = append(rows, rule.Rows(lines)...)
		}
		return rows, nil
	}, func(rows []journal.Row) ([]journal.Event, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		return decide(rows)
	})
	return t.FailClaim("claim waiting jobs", err)
}

// ClaimManual implements store.Table. No row is ever held by somebody else: transactions wait for
// each other.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	err = t.claim(ctx, func(ctx context.Context, tx *sql.Tx, found *layout) ([]journal.Row, error) {
		lines, err := t.lines(ctx, tx, found, found.Named(rule.IDs(ids), targets), targets)
		return rule.Rows(lines), err
	}, decide)
	return nil, t.FailClaim("claim jobs by id", err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		lines, err := t.lines(ctx, tx, found, found.Named(rule.IDs(ids), nil), nil)
		rows = rule.Rows(lines)
		return false, err
	})
	return rows, nil, t.Fail("read jobs", err)
}

// claim chooses rows, has them decided and updates them, in one transaction. Where an update fails it is
// undone, whatever the error: SQLite has no doubtful commit. A trigger may raise any code, so each row is
// tried by itself then.
func (t *Table) claim(ctx context.Context, choose func(context.Context, *sql.Tx, *layout) ([]journal.Row, error), decide store.Decide) error {
	found, err := t.layout.Get(ctx)
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
		one := found.Decision(verdict)
		if _, err := tx.ExecContext(ctx, one.Query, one.Args...); err != nil {
			return err
		}
	}
	return nil
}

// lines reads the rows of statements.
func (t *Table) lines(ctx context.Context, tx *sql.Tx, found *layout, statements []rule.Statement, names []string) (lines []rule.Line, err error) {
	for _, one := range statements {
		results, err := tx.QueryContext(ctx, one.Query, one.Args...)
		if err != nil {
			return nil, err
		}
		some, err := found.Lines(results, one, names)
		if err = errors.Join(err, results.Close()); err != nil {
			return nil, err
		}
		lines = append(lines, some...)
	}
	return lines, nil
}

// probe tries what a claim makes of its rows, row by row, and undoes it. No row is held by somebody
// else: transactions wait for each other.
func (t *Table) probe(ctx context.Context, verdicts []rule.Verdict) (map[int64]string, error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	return rule.ProbeEach(verdicts, func(single rule.Verdict) (why string, err error) {
		_, err = t.attempt(func(tx *sql.Tx) (commit bool, _ *part, _ error) {
			if failure := t.write(ctx, tx, found, []rule.Verdict{single}); failure != nil {
				why = failure.Error()
			}
			return false, nil, nil
		})
		return why, err
	})
}
