package mysql

import (
	"context"
	"database/sql"

	"github.com/cenkalti/backoff/v5"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// claim is one claim.
type claim struct {
	table   *Table
	layout  *layout
	decide  store.Decide
	decided bool // decide was called
	all     bool // it decided on each row that it was given

	uncommitted bool     // its update failed before COMMIT was sent
	refusal     *refusal // how its update failed; nil: it did not
}

// chooser begins a transaction and locks rows in it.
type chooser func(ctx context.Context, conn *sql.Conn) ([]journal.Row, error)

// run locks rows, has them decided and updates them. Until decide is called, a
// lost race is begun again; afterwards nothing is, and nothing is cancelled (pitfall 7).
// Where there is no row, decide is called only if it wants to hear of it.
func (c *claim) run(ctx context.Context, choose chooser, empty bool) error {
	err := c.table.retry(ctx, func() error {
		return c.table.claiming(ctx, func(conn *sql.Conn) (bool, error) {
			rows, err := choose(ctx, conn)
			if err != nil || len(rows) == 0 && !empty {
				return false, err
			}
			c.decided = true
			events, err := c.decide(rows)
			if err == nil {
				err = c.commit(context.WithoutCancel(ctx), conn, rows, events)
			}
			return err == nil, backoff.Permanent(err)
		})
	})
	switch {
	case c.refusal != nil:
		return c.refusal.explain(context.WithoutCancel(ctx), c.table)
	case err == nil && c.decided:
		c.table.claims.overtaken.Store(0)
	}
	return err
}

// commit updates the rows as decided and commits. An update that misses rows which the transaction
// has locked tells that the server undid the transaction and went on without: a node of a Galera
// cluster does (pitfall 15); what is not committed yet must not be then.
func (c *claim) commit(ctx context.Context, conn *sql.Conn, rows []journal.Row, events []journal.Event) error {
	verdicts, err := rule.Verdicts(rows, events)
	if err != nil {
		return err
	}
	decided := 0
	for _, verdict := range verdicts {
		decided += len(verdict.Jobs)
	}
	c.all = decided == len(rows)
	if err = c.update(ctx, conn, verdicts); err != nil {
		open := c.uncommitted || number(err) != 0 && inTransaction(ctx, conn)
		c.refusal = &refusal{verdicts, err, open}
	}
	return err
}

// update sends the updates and COMMIT, together where the server's locks can be relied on.
func (c *claim) update(ctx context.Context, conn *sql.Conn, verdicts []rule.Verdict) error {
	updates := c.layout.decided(verdicts)
	if !c.layout.galera {
		matched, err := c.layout.send(ctx, conn, append(updates, commit)...)
		if err != nil {
			return overtaken(err)
		}
		return complete(verdicts, matched)
	}
	var matched []int64
	var err error
	if len(updates) > 0 {
		if matched, err = c.layout.send(ctx, conn, updates...); err != nil {
			c.uncommitted = number(err) != 0
			return overtaken(err)
		}
	}
	if err := complete(verdicts, matched); err != nil {
		return &store.Overtaken{Err: err}
	}
	_, err = c.layout.send(ctx, conn, commit)
	return overtaken(err)
}
