package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// settle updates the rows as decided and commits. An update that misses rows which the transaction has locked
// tells that the server undid the transaction and went on without: a node of a Galera cluster does
// (pitfall 15), and TiDB may not have locked at all; what is not committed yet must not be then.
func (c *claim) settle(ctx context.Context, conn *sql.Conn, rows []journal.Row, events []journal.Event) error {
	verdicts, err := rule.Verdicts(rows, events)
	if err != nil {
		return err
	}
	if err = c.update(ctx, conn, verdicts); err != nil {
		open := c.uncommitted || number(err) != 0 && inTransaction(ctx, conn)
		c.refusal = &refusal{verdicts, err, open}
	}
	return err
}

// update sends the updates and COMMIT, together where the server's locks can be relied on.
func (c *claim) update(ctx context.Context, conn *sql.Conn, verdicts []rule.Verdict) error {
	updates := c.table.decided(verdicts)
	if !c.layout.galera && !c.layout.version.tiDB {
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

// decided is the updates that a claim consists of.
func (t *Table) decided(verdicts []rule.Verdict) []statement {
	updates := make([]statement, 0, len(verdicts)+1)
	for _, verdict := range verdicts {
		updates = append(updates, t.update(verdict))
	}
	return updates
}

// update is the statement that makes of rows what a claim decided.
func (t *Table) update(verdict rule.Verdict) statement {
	set, args := rule.Set(verdict.Write(t.config.ClaimColumn), quote)
	return statement{
		query: "UPDATE " + t.name.quoted() + " SET " + set + " WHERE id IN (" + rule.List(verdict.Jobs) + ") AND " + rule.IsFree + "; ",
		args:  args,
	}
}

// complete tells whether the updates of a claim met all of its rows.
func complete(verdicts []rule.Verdict, matched []int64) error {
	for i, verdict := range verdicts {
		if matched[i] != int64(len(verdict.Jobs)) {
			return fmt.Errorf("the transaction lost its locks: %d of %d rows were updated", matched[i], len(verdict.Jobs))
		}
	}
	return nil
}
