package mysql

import (
	"context"
	"database/sql"
	"errors"
	"maps"

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

// probe tries what a claim makes of its rows, row by row, and undoes it.
func (t *Table) probe(ctx context.Context, verdicts []rule.Verdict) (map[int64]string, error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	refused := map[int64]string{}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (bool, error) {
			some, err := rule.ProbeEach(verdicts, func(ids []int64) ([]int64, error) {
				return t.free(ctx, conn, found, ids)
			}, func(single rule.Verdict) (string, error) {
				return t.probeOne(ctx, conn, found.decision(single))
			})
			maps.Copy(refused, some)
			return false, err
		})
	})
	return refused, err
}

// free gives those of some ids whose rows nobody else has locked, where the server can tell.
func (t *Table) free(ctx context.Context, conn *sql.Conn, found *layout, ids []int64) (free []int64, err error) {
	if !found.version.skipsLocked() {
		return ids, nil
	}
	results, err := conn.QueryContext(ctx, "SELECT id FROM "+t.name.quoted()+found.byKey()+" WHERE id IN ("+rule.List(ids)+") "+found.version.locking())
	if err != nil {
		return nil, err
	}
	defer results.Close()
	for results.Next() {
		if err := scanID(results, &free); err != nil {
			return nil, err
		}
	}
	return free, results.Err()
}

// probeOne tries an update and undoes it; why is the server's word against it, "" where it takes
// it. What looks like a lost race is one unless it repeats.
func (t *Table) probeOne(ctx context.Context, conn *sql.Conn, one statement) (why string, err error) {
	const races = 3
	for range races {
		_, err = sendPacket(ctx, conn, []statement{{query: begin}, one, {query: "ROLLBACK; "}})
		if number(err) == 0 {
			return "", err
		}
		failure := err
		why = failure.Error()
		if _, err = conn.ExecContext(ctx, "ROLLBACK"); err != nil || !isTransient(failure) {
			break
		}
	}
	return why, err
}
