package mysql

import (
	"context"
	"database/sql"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Retry implements store.Table.
func (t *Table) Retry(ctx context.Context, ids []int64, decide store.Decide) (locked []int64, err error) {
	const op = "retry jobs"
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := t.learnKey(ctx); err != nil {
		return nil, t.fail(op, err)
	}
	run := &claim{table: t, layout: found, decide: rule.RetryAll(decide)}
	err = run.run(ctx, func(ctx context.Context, conn *sql.Conn) (rows []journal.Row, err error) {
		rows, locked, err = t.lockNamed(ctx, conn, found, ids, nil)
		return rows, err
	}, true)
	return locked, t.failures.FailClaim(op, err)
}
