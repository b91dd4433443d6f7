package mysql

import (
	"context"
	"database/sql"
	"errors"

	"jobd/store"
	"jobd/store/internal/rule"
)

// refusal is how the update of a claim failed.
type refusal struct {
	verdicts []rule.Verdict
	err      error
	open     bool // its transaction was still open afterwards: COMMIT was not reached
}

// inTransaction tells whether a transaction is open on the connection. The server refuses this
// statement only then.
func inTransaction(ctx context.Context, conn *sql.Conn) bool {
	_, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	return number(err) == errInTransaction
}

// suspicious is how many claims in a row are overtaken before their rows are looked at one by one:
// a trigger may raise the numbers of a lost race, too.
const suspicious = 2

// explain is the claim's error in words that the caller can act on. A transaction that was open
// after its update had failed has not been committed, whatever the error's number: then some rows
// are at fault, and each is tried by itself.
func (r *refusal) explain(ctx context.Context, t *Table) error {
	var lost *store.Overtaken
	races := errors.As(r.err, &lost)
	switch {
	case races && t.claims.overtaken.Add(1)%suspicious != 0:
		return lost
	case !races && !r.open:
		return r.err // COMMIT itself, or the link: nobody knows
	}
	refused, err := t.probe(ctx, r.verdicts)
	if len(refused) == 0 && races {
		return lost
	}
	switch {
	case isDubious(err): // the rows could not even be locked to try them
		err = t.fail("try jobs one by one", err)
	case err == nil && isUnusable(r.err):
		err = t.Check(ctx) // of the table itself, beside which triggers don't matter
	}
	if err != nil {
		return &store.RefusedRows{Err: err}
	}
	return &store.RefusedRows{Rows: refused, Err: r.err}
}
