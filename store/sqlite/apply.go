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
	row, err := a.table.find(ctx, tx, a.layout, change.Job)
	if err != nil {
		return store.Outcome{}, err
	}
	return rule.Judge(change, row, a.table.config.Uses), nil
}

// Sort implements rule.Updater.
func (a *application) Sort(err error) rule.Fault {
	switch {
	case isOfValues(err):
		return rule.Values
	case isOfRule(err):
		return rule.Rule
	case isDubious(err):
		return rule.Dubious
	}
	return rule.Whole
}

// Ask implements rule.Updater.
func (a *application) Ask(ctx context.Context) error { return a.table.Check(ctx) }

// Reduce implements rule.Updater.
func (a *application) Reduce(index int, _ error) bool {
	again := a.reduced[index]
	a.reduced[index] = true
	return !again && a.changes[index].Done != nil
}

// Note implements rule.Updater.
func (a *application) Note(index int, outcome store.Outcome) { a.outcomes[index] = outcome }

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
			row, err := a.table.find(ctx, tx, a.layout, a.changes[index].Job)
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

// reduced is a change with nothing in it but how the job ended, and when its row comes back.
func reduced(change store.Change) store.Change {
	if change.Done != nil {
		change.Done = &journal.Done{Result: change.Done.Result, Again: change.Done.Again}
	}
	return change
}

// update applies a change, guarded by the claim's token, and tells how many rows it matched.
func (t *Table) update(ctx context.Context, tx *sql.Tx, found *layout, change store.Change) (int64, error) {
	set, args := rule.Set(rule.Write(change, t.config.Worker, writing{t.config.ClaimColumn, t.config.Uses, found}), quote)
	unedited, schedule := rule.Unedited(change, t.config.Uses)
	args = append(append(args, change.Job, change.Token), schedule...)
	result, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET "+set+
		" WHERE id = ? AND "+rule.IsUnderWay+" AND "+quote(t.config.ClaimColumn)+" = ?"+unedited, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// writing is how a table holds what jobd writes. It implements rule.Dialect.
type writing struct {
	owner string
	uses  store.Uses
	*layout
}

// Owner implements rule.Dialect.
func (w writing) Owner() string { return w.owner }

// Sig implements rule.Dialect.
func (w writing) Sig() string { return store.SigColumn }

// Word implements rule.Dialect.
func (w writing) Word(column, text string) any {
	if text == "" && w.nullable[strings.ToLower(column)] {
		return nil
	}
	return text
}

// Code implements rule.Dialect.
func (w writing) Code(code *int) any { return rule.Code(code, w.nullable["return_code"], true) }

// Nothing implements rule.Dialect.
func (w writing) Nothing(column string) (value any, possible bool) {
	return rule.NothingIn(column, w.nullable[column], column != "result")
}

// Uses implements rule.Dialect.
func (w writing) Uses(column string) bool { return w.uses.Has(column) }

// Number implements rule.Dialect.
func (writing) Number(_ string, value int64) any { return value }

// Output implements rule.Dialect.
func (w writing) Output(done *journal.Done) (stdout, stderr string) {
	return done.Stdout.Text(0, journal.CharsetFull), done.ShownStderr().Text(0, journal.CharsetFull)
}
