package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Look implements store.Table.
func (t *Table) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	seen, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[int64]*store.Seen, len(ids))
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for _, id := range ids {
			row, err := t.find(ctx, tx, seen, id)
			if err != nil {
				return false, err
			}
			if row != nil {
				found[id] = row
			}
		}
		return false, nil
	})
	return found, t.fail("look at jobs", err)
}

// find reads the row of a job as Judge needs it; nil: it is gone. Any column may be NULL, and
// columns of numbers may hold texts, which count as 0 where they begin with no number.
func (t *Table) find(ctx context.Context, tx *sql.Tx, found *layout, job int64) (*rule.Found, error) {
	var row rule.Found
	result := tx.QueryRowContext(ctx, "SELECT id, COALESCE(target, 'null'), COALESCE(status, ''), COALESCE("+quote(t.config.ClaimColumn)+", ''), "+
		seconds("time_created")+", "+seconds("time_started")+", "+seconds("time_finished")+", COALESCE(result, ''), CASE typeof(return_code) WHEN 'integer' THEN return_code END, "+
		found.signal()+found.planned()+" FROM "+
		quote(t.config.Table)+" WHERE id = ?", job)
	_, err := found.scan(result.Scan, &row.Row, &row.Job, &row.Target, &row.Status, &row.Owner, &row.Created, &row.Started, &row.Finished, &row.Result, &row.Code, &row.Signal)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row, err
}

// seconds is an expression for the unix seconds in a column.
func seconds(column string) string { return "COALESCE(CAST(" + column + " AS INTEGER), 0)" }
