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
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, err
	}
	run := rule.NewApplication(changes)
	run.Sort, run.Check = sortError, t.Check
	run.Try = func(ctx context.Context, some []int) error {
		return t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
			for _, index := range some {
				matched, err := update(ctx, tx, found, changes[index], run.Reduced[index])
				if err != nil {
					return false, err
				}
				run.Met(index, matched > 0)
			}
			return true, nil
		})
	}
	if err = run.Divide(ctx, run.All()); err == nil {
		err = run.Judge(ctx, &t.Reader)
	}
	return run.Outcomes, t.Fail("apply changes", err)
}

// update applies a change, and tells how many rows it matched.
func update(ctx context.Context, tx *sql.Tx, found *layout, change store.Change, reduced bool) (int64, error) {
	set, guard, args, more := found.Update(change, reduced)
	result, err := tx.ExecContext(ctx, set+"?"+guard, append(append(args, change.Job), more...)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// output is what a job wrote; in reduced form nothing of it.
func output(done *journal.Done, reduced bool) (stdout, stderr string) {
	if reduced {
		return "", ""
	}
	return done.Stdout.Text(0, journal.CharsetFull), done.ShownStderr().Text(0, journal.CharsetFull)
}
