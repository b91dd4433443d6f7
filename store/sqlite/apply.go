package sqlite

import (
	"context"
	"database/sql"

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
	run := &application{rule.NewApplication(changes), t, found}
	if err := rule.Divide(ctx, run, run.All()); err != nil {
		return nil, t.fail("apply changes", err)
	}
	err = run.Judge(found.Uses, func(ids []int64) (map[int64]*rule.Found, string, error) {
		rows, err := t.find(ctx, found, ids)
		return rows, "", err
	})
	return run.Outcomes, t.fail("look at jobs", err)
}

// application is one call of Apply. It implements rule.Updater.
type application struct {
	rule.Application
	table  *Table
	layout *layout
}

// Try implements rule.Updater.
func (a *application) Try(ctx context.Context, some []int) error {
	return a.table.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		for _, index := range some {
			matched, err := a.update(ctx, tx, index)
			if err != nil {
				return false, err
			}
			a.Met(index, matched > 0)
		}
		return true, nil
	})
}

// update applies a change, guarded by the claim's token, and tells how many rows it matched.
func (a *application) update(ctx context.Context, tx *sql.Tx, index int) (int64, error) {
	change, l := a.Changes[index], a.layout
	set, args := rule.Set(l.Write(change, a.Reduced[index]), quote)
	unedited, schedule := rule.Unedited(change, l.Uses)
	args = append(append(args, change.Job, change.Token), schedule...)
	result, err := tx.ExecContext(ctx, "UPDATE "+l.Table+" SET "+set+
		" WHERE id = ? AND "+rule.IsUnderWay+" AND "+quote(l.Owner)+" = ?"+unedited, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
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

// output is what a job wrote; in reduced form nothing of it.
func output(done *journal.Done, reduced bool) (stdout, stderr string) {
	if reduced {
		return "", ""
	}
	return done.Stdout.Text(0, journal.CharsetFull), done.ShownStderr().Text(0, journal.CharsetFull)
}
