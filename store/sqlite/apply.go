package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Apply implements store.Table.
func (t *Table) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	for _, change := range changes {
		if err := rule.Check(change); err != nil {
			return nil, err
		}
	}
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(changes))
	err = t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for i, change := range changes {
			if outcomes[i], err = t.apply(ctx, tx, found, change); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, t.fail("apply changes", err)
	}
	return outcomes, nil
}

// apply updates one row. An update that the table's rules refuse undoes only itself, so it can
// be tried again without what such a rule may be about.
func (t *Table) apply(ctx context.Context, tx *sql.Tx, found *layout, change store.Change) (store.Outcome, error) {
	matched, err := t.update(ctx, tx, found, change)
	note := ""
	if isRefused(err) {
		refusal := err
		note = "output, return code and signal left out"
		matched, err = t.update(ctx, tx, found, reduced(change))
		if isRefused(err) {
			return store.Outcome{Fate: store.Refused, Note: refusal.Error()}, nil
		}
	}
	switch {
	case err != nil:
		return store.Outcome{}, err
	case matched > 0:
		return store.Outcome{Fate: store.Applied, Note: note}, nil
	}
	row, err := t.find(ctx, tx, change.Job)
	if err != nil {
		return store.Outcome{}, err
	}
	return rule.Judge(change, row), nil
}

// reduced is a change with nothing in it but how the job ended.
func reduced(change store.Change) store.Change {
	if change.Done != nil {
		change.Done = &journal.Done{Result: change.Done.Result}
	}
	return change
}

// update applies a change, guarded by the claim's token, and tells how many rows it matched.
func (t *Table) update(ctx context.Context, tx *sql.Tx, found *layout, change store.Change) (int64, error) {
	var columns []string
	var args []any
	set := func(column string, value any) {
		columns = append(columns, quote(column)+" = ?")
		args = append(args, value)
	}
	set("status", change.Status)
	switch {
	case rule.Release(change):
		set(t.config.ClaimColumn, found.empty(t.config.ClaimColumn))
		set("time_started", 0)
	case change.Status == journal.RowRunning:
		set("time_started", rule.Seconds(change.Start))
	default:
		t.setDone(set, found, change)
	}
	args = append(args, change.Job, change.Token)
	result, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET "+strings.Join(columns, ", ")+
		" WHERE id = ? AND status IN ('accepted','running') AND "+quote(t.config.ClaimColumn)+" = ?", args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// setDone sets the columns that say how a job ended.
func (t *Table) setDone(set func(string, any), found *layout, change store.Change) {
	done := change.Done
	if !change.Start.IsZero() {
		set("time_started", rule.Seconds(change.Start))
	}
	set("time_finished", rule.Seconds(change.Finish))
	set("result", done.Result)
	set("return_code", returnCode(done.Code, found))
	if !strings.EqualFold(t.config.ClaimColumn, sigColumn) {
		set(t.config.ClaimColumn, t.config.Worker)
	}
	if done.Signal != "" {
		set(sigColumn, done.Signal)
	} else {
		set(sigColumn, found.empty(sigColumn))
	}
	set("stdout", done.Stdout.Text(0, journal.CharsetFull))
	set("stderr", done.ShownStderr().Text(0, journal.CharsetFull))
}

// returnCode is a return code as the column holds it. Where there is none, and
// the column takes no NULL, it must not read as success.
func returnCode(code *int, found *layout) any {
	const failed = 255
	switch {
	case code != nil:
		return *code
	case found.nullable["return_code"]:
		return nil
	default:
		return failed
	}
}

// find reads the row of a job as Judge needs it; nil: it is gone.
func (t *Table) find(ctx context.Context, tx *sql.Tx, job int64) (*rule.Found, error) {
	var row rule.Found
	err := tx.QueryRowContext(ctx, "SELECT id, target, status, COALESCE("+quote(t.config.ClaimColumn)+", ''), "+
		"time_started, time_finished, COALESCE(result, '') FROM "+quote(t.config.Table)+" WHERE id = ?", job).
		Scan(&row.Job, &row.Target, &row.Status, &row.Owner, &row.Started, &row.Finished, &row.Result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row, err
}
