package sqlite

import (
	"context"

	library "modernc.org/sqlite/lib"

	"jobd/store"
	"jobd/store/internal/rule"
)

// refusal is how the update of a claim failed.
type refusal struct {
	verdicts []rule.Verdict
	err      error
}

// explain is the claim's error in words that the caller can act on. The transaction was undone,
// whatever the error: SQLite has no doubtful commit. A trigger may raise any code, so each row is
// tried by itself.
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

// aboutRows tells errors that an update may have met because of its rows from those of the file or
// the disk.
func aboutRows(err error) bool {
	switch code(err) {
	case library.SQLITE_ERROR, library.SQLITE_CONSTRAINT, library.SQLITE_TOOBIG, library.SQLITE_MISMATCH, library.SQLITE_RANGE,
		library.SQLITE_ABORT, library.SQLITE_LOCKED, library.SQLITE_SCHEMA:
		return true
	}
	return false
}
