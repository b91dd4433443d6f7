package sqlite

import (
	"context"
	"database/sql"

	library "modernc.org/sqlite/lib"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Probe implements store.Table.
func (t *Table) Probe(ctx context.Context, ids []int64) (refused map[int64]string, err error) {
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	refused, err = t.probe(ctx, rule.Probes(ids))
	return refused, t.fail("try jobs one by one", err)
}

// probe tries what a claim makes of its rows, row by row, and undoes it. No row is held by somebody
// else: transactions wait for each other.
func (t *Table) probe(ctx context.Context, verdicts []rule.Verdict) (map[int64]string, error) {
	all := func(ids []int64) ([]int64, error) { return ids, nil }
	return rule.ProbeEach(verdicts, all, func(single rule.Verdict) (why string, err error) {
		err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
			if failure := t.settle(ctx, tx, []rule.Verdict{single}); failure != nil {
				why = failure.Error()
			}
			return false, nil
		})
		return why, err
	})
}

// refusal is how the update of a claim failed.
type refusal struct {
	verdicts []rule.Verdict
	err      error
}

// explain is the claim's error in words that the caller can act on. The transaction was undone, whatever the error: SQLite has no
// doubtful commit. A trigger may raise any code, so each row is tried by itself.
func (r *refusal) explain(ctx context.Context, t *Table) error {
	if !aboutRows(r.err) {
		return r.err
	}
	refused, err := t.probe(ctx, r.verdicts)
	if err != nil {
		refused = nil // which rows it are is not known
	}
	return &store.RefusedRows{Rows: refused, Err: r.err}
}

// aboutRows tells errors that an update may have met because of its rows from those of the file or the disk.
func aboutRows(err error) bool {
	switch code(err) {
	case library.SQLITE_ERROR, library.SQLITE_CONSTRAINT, library.SQLITE_TOOBIG, library.SQLITE_MISMATCH, library.SQLITE_RANGE,
		library.SQLITE_ABORT, library.SQLITE_LOCKED, library.SQLITE_SCHEMA:
		return true
	}
	return false
}
