package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cenkalti/backoff/v5"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Claim implements store.Table.
func (t *Table) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	var asks []ask
	for _, target := range slices.Sorted(maps.Keys(room)) {
		if room[target] > 0 {
			asks = append(asks, ask{Ask: rule.Ask{Target: target, Room: room[target]}})
		}
	}
	if len(asks) == 0 {
		return nil
	}
	var rows []journal.Row
	run := &claim{table: t, decide: decide}
	err := run.run(ctx, func(ctx context.Context, conn *sql.Conn) (_ []journal.Row, err error) {
		rows, err = t.lockCandidates(ctx, conn, run.layout, asks, except)
		return rows, err
	}, false)
	if err != nil || !run.all {
		rows = nil
	}
	t.candidates.end(asks, rows)
	return t.FailClaim("claim waiting jobs", err)
}

// claim is one claim.
type claim struct {
	table  *Table
	layout *layout
	decide store.Decide
	all    bool // it decided on each row that it was given

	uncommitted bool               // its update failed before COMMIT was sent
	refused     *store.RefusedRows // its update failed, and was not committed
}

// run begins a transaction, in which choose locks rows, has them decided and updates them. Before decide, a
// transaction that lost a race is begun again. After decide nothing is, and the context no longer cancels (pitfall 7).
// Where there is no row, decide is called only if it wants to hear of it.
func (c *claim) run(ctx context.Context, choose func(context.Context, *sql.Conn) ([]journal.Row, error), empty bool) error {
	err := c.table.retry(ctx, func() (err error) {
		if c.layout, err = c.table.layout.Get(ctx); err != nil {
			return err
		}
		if c.layout.Unindexed != "" && !empty {
			return rule.Misfit{Text: c.layout.Unindexed}
		}
		return c.table.claiming(ctx, func(conn *sql.Conn) (bool, error) {
			rows, err := choose(ctx, conn)
			if err != nil || len(rows) == 0 && !empty {
				return false, err
			}
			events, err := c.decide(rows)
			if err == nil {
				err = c.commit(context.WithoutCancel(ctx), conn, rows, events)
			}
			return err == nil, backoff.Permanent(err)
		})
	})
	if c.refused == nil {
		return err
	}
	if isDubious(err) {
		c.refused.Err = c.table.Fail("update jobs", err)
		if store.IsAway(c.refused.Err) { // the table is away: no row is at fault
			c.refused.Rows = nil
		}
	}
	return c.refused
}

// commit updates the rows as decided and commits. If an update misses rows that the transaction has
// locked, the server has undone the transaction and goes on without it, as a node of a Galera cluster
// does (pitfall 15). The rest must not be committed then.
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
		c.explain(ctx, conn, verdicts, err)
	}
	return err
}

// explain finds out why the update failed: refused by the table, lost to another transaction, or not known, because
// the link or the COMMIT failed; then the claim is in doubt. A transaction
// that is open after its update has failed has not been committed, whatever the error's number. Then some
// rows are at fault: each is tried by itself, and the transaction undone.
func (c *claim) explain(ctx context.Context, conn *sql.Conn, verdicts []rule.Verdict, err error) {
	refused := &store.RefusedRows{Err: err}
	if number(err) != 0 && inTransaction(ctx, conn) {
		refused.Rows, _ = rule.ProbeEach(verdicts, func(single rule.Verdict) (why string, err error) {
			if _, err = sendPacket(ctx, conn, []rule.Statement{c.layout.Decision(single)}); number(err) != 0 {
				why, err = err.Error(), nil
			}
			if !inTransaction(ctx, conn) { // the next one would be committed
				err = errors.Join(err, errNoTransaction)
			}
			return why, err
		})
	} else if !c.uncommitted {
		return
	}
	var lost *store.Overtaken
	if !errors.As(err, &lost) || len(refused.Rows) > 0 {
		c.refused = refused
	}
}

// errNoTransaction ends the trial of a claim's rows.
var errNoTransaction = errors.New("the server has ended the transaction")

// inTransaction tells whether a transaction is open on the connection. The server refuses this
// statement only then.
func inTransaction(ctx context.Context, conn *sql.Conn) bool {
	_, err := conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	return number(err) == errInTransaction
}

// update sends the updates and COMMIT, together where the server's locks can be relied on.
func (c *claim) update(ctx context.Context, conn *sql.Conn, verdicts []rule.Verdict) error {
	updates := make([]rule.Statement, 0, len(verdicts)+1)
	for _, verdict := range verdicts {
		updates = append(updates, c.layout.Decision(verdict))
	}
	galera := c.layout.galera
	if !galera {
		updates = append(updates, commit)
	}
	matched, err := c.layout.send(ctx, conn, updates...)
	if err != nil {
		c.uncommitted = galera && number(err) != 0
		return overtaken(err)
	}
	if err = complete(verdicts, matched); !galera {
		return err
	}
	if err != nil {
		return &store.Overtaken{Err: err}
	}
	_, err = c.layout.send(ctx, conn, commit)
	return overtaken(err)
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

// ClaimManual implements store.Table.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	const op = "claim jobs by id"
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.Fail(op, err)
	}
	run := &claim{table: t, decide: decide}
	err = run.run(ctx, func(ctx context.Context, conn *sql.Conn) (rows []journal.Row, err error) {
		rows, locked, err = t.lockNamed(ctx, conn, run.layout, ids, names)
		return rows, err
	}, true)
	return locked, t.FailClaim(op, err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	found, err := t.layout.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, locked, err = t.lockNamed(ctx, conn, found, ids, nil)
			return false, err // the rollback gives the locks back
		})
	})
	return rows, locked, t.Fail("read jobs", err)
}

// lockNamed begins a transaction and locks rows by their ids. If somebody else holds a row, lockNamed
// does not lock it, but lists it in locked. It waits for such a row only if the server can't skip locked
// rows.
func (t *Table) lockNamed(ctx context.Context, conn *sql.Conn, found *layout, ids []int64, names []string) (
	rows []journal.Row, locked []int64, err error,
) {
	ids = rule.IDs(ids)
	if len(ids) == 0 {
		return nil, nil, nil
	}
	lines, err := t.lock(ctx, conn, found, begin+"; ", found.Named(ids, names), names)
	rows = rule.Rows(slices.Concat(lines...))
	if err != nil || len(rows) == len(ids) || !found.version.skipsLocked() {
		return rows, nil, err
	}
	free := make(map[int64]bool, len(rows))
	for _, row := range rows {
		free[row.Job] = true
	}
	missing := slices.DeleteFunc(ids, func(id int64) bool { return free[id] })
	for some := range slices.Chunk(missing, rule.IDsLimit) {
		there, err := idsOf(ctx, conn, "SELECT id FROM "+found.Table+" WHERE id IN ("+rule.List(some)+")")
		if err != nil {
			return nil, nil, err
		}
		locked = append(locked, there...)
	}
	slices.Sort(locked)
	return rows, locked, nil
}
