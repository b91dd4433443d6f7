package sqlite

import (
	"context"
	"database/sql"

	"jobd/store/internal/rule"
)

// Probe implements store.Table.
func (t *Table) Probe(ctx context.Context, ids []int64) (refused map[int64]string, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	refused, err = t.probe(ctx, rule.Probes(ids, t.config.Uses))
	return refused, t.fail("try jobs one by one", err)
}

// probe tries what a claim makes of its rows, row by row, and undoes it. No row is held by somebody
// else: transactions wait for each other.
func (t *Table) probe(ctx context.Context, verdicts []rule.Verdict) (map[int64]string, error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	all := func(ids []int64) ([]int64, error) { return ids, nil }
	return rule.ProbeEach(verdicts, all, func(single rule.Verdict) (why string, err error) {
		err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
			if failure := t.write(ctx, tx, found, []rule.Verdict{single}); failure != nil {
				why = failure.Error()
			}
			return false, nil
		})
		return why, err
	})
}
