package sqlite

import (
	"context"
	"database/sql"
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
	run := &application{table: t, layout: found, changes: changes, reduced: make([]bool, len(changes)), outcomes: make([]store.Outcome, len(changes))}
	all := make([]int, len(changes))
	for i := range all {
		all[i] = i
	}
	if err := rule.Divide(ctx, run, all); err != nil {
		return nil, t.fail("apply changes", err)
	}
	if err := run.look(ctx); err != nil {
		return nil, t.fail("look at refused jobs", err)
	}
	return run.outcomes, nil
}

// application is one call of Apply. It implements rule.Updater.
type application struct {
	table    *Table
	layout   *layout
	changes  []store.Change
	reduced  []bool
	outcomes []store.Outcome
	proven   bool // the table itself was asked since a first error, and works
}

// Try implements rule.Updater.
func (a *application) Try(ctx context.Context, some []int) error {
	return a.table.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for _, index := range some {
			outcome, err := a.one(ctx, tx, index)
			if err != nil {
				return false, err
			}
			a.outcomes[index] = outcome
		}
		return true, nil
	})
}

// one applies a change.
func (a *application) one(ctx context.Context, tx *sql.Tx, index int) (store.Outcome, error) {
	change, note := a.changes[index], ""
	if a.reduced[index] {
		change, note = reduced(change), "output, return code and signal left out"
	}
	matched, err := a.table.update(ctx, tx, a.layout, change)
	if err != nil {
		return store.Outcome{}, err
	}
	if matched > 0 {
		return store.Outcome{Fate: store.Applied, Note: note}, nil
	}
	row, err := a.table.find(ctx, tx, change.Job)
	if err != nil {
		return store.Outcome{}, err
	}
	return rule.Judge(change, row), nil
}

// Sort implements rule.Updater.
func (a *application) Sort(ctx context.Context, err error) (rule.Fault, error) {
	switch {
	case isOfValues(err):
		return rule.Values, nil
	case isOfRule(err):
		return rule.Rule, nil
	case !isDubious(err):
		return rule.Whole, err
	case !a.proven:
		if known := a.table.Check(ctx); known != nil {
			return rule.Whole, known
		}
		a.proven = true
	}
	return rule.Moment, nil
}

// Reduce implements rule.Updater.
func (a *application) Reduce(index int, _ error) bool {
	again := a.reduced[index]
	a.reduced[index] = true
	return !again && a.changes[index].Done != nil
}

// Settle implements rule.Updater.
func (a *application) Settle(index int, outcome store.Outcome) { a.outcomes[index] = outcome }

// look tells what the rows of refused changes hold.
func (a *application) look(ctx context.Context) error {
	var refused []int
	for index, outcome := range a.outcomes {
		if outcome.Fate == store.Refused {
			refused = append(refused, index)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return a.table.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for _, index := range refused {
			row, err := a.table.find(ctx, tx, a.changes[index].Job)
			if err != nil {
				return false, err
			}
			if row != nil {
				a.outcomes[index].Found = &row.Row
			}
		}
		return false, nil
	})
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
