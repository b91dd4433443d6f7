package mysql

import (
	"context"
	"database/sql"
	"slices"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// idsLimit is how many ids go into one statement: with many more the server gives up finding rows
// one by one.
const idsLimit = 1000

// ClaimManual implements store.Table.
func (t *Table) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) (locked []int64, err error) {
	const op = "claim jobs by id"
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	done, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	names, err := t.comparable(ctx, targets)
	if err == nil {
		err = t.learnKey(ctx)
	}
	if err != nil {
		return nil, t.fail(op, err)
	}
	run := &claim{table: t, layout: found, decide: decide}
	err = run.run(ctx, func(ctx context.Context, conn *sql.Conn) (rows []journal.Row, err error) {
		rows, locked, err = t.lockNamed(ctx, conn, found, ids, names)
		return rows, err
	}, true)
	return locked, t.failures.FailClaim(op, err)
}

// Rows implements store.Table.
func (t *Table) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	found, err := t.examined(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := t.learnKey(ctx); err != nil {
		return nil, nil, t.fail("read jobs", err)
	}
	err = t.retry(ctx, func() error {
		return t.once(ctx, func(conn *sql.Conn) (_ bool, err error) {
			rows, locked, err = t.lockNamed(ctx, conn, found, ids, nil)
			return false, err // the rollback gives the locks back
		})
	})
	return rows, locked, t.fail("read jobs", err)
}

// lockNamed begins a transaction and locks rows by their ids, but those that somebody else holds.
// It tells which these are, and waits for none of them, unless the server can't but wait.
func (t *Table) lockNamed(ctx context.Context, conn *sql.Conn, found *layout, ids []int64, names []string) (
	rows []journal.Row, locked []int64, err error,
) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return id == 0 })
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil, nil, nil
	}
	chosen := t.named(ids, names, found)
	rows, err = t.lock(ctx, conn, found, begin, chosen)
	if err != nil || len(rows) == len(ids) || !found.version.skipsLocked() {
		return rows, nil, err
	}
	free := jobsOf(rows)
	rows, seen, err := t.lockAmong(ctx, conn, found, without(ids, free), chosen)
	seen = append(seen, free...) // what was free a moment ago may be held by now
	slices.Sort(seen)
	return rows, without(slices.Compact(seen), jobsOf(rows)), err
}

// lockAmong begins the transaction anew. Before it, it looks without locks which of the missing
// rows there are: committed, as what somebody is about to change or to remove, or not yet, as what
// somebody is about to insert. A row that was seen there and is not locked here is held.
func (t *Table) lockAmong(ctx context.Context, conn *sql.Conn, found *layout, missing []int64, chosen selection) (
	rows []journal.Row, seen []int64, err error,
) {
	start, looks := "ROLLBACK; ", 0
	for some := range slices.Chunk(missing, idsLimit) {
		look := "SELECT id FROM " + t.name.quoted() + " WHERE id IN (" + rule.List(some) + "); "
		start += readUncommitted + look + look
		looks += 2
	}
	return t.lockAfter(ctx, conn, found, looks, start+begin, chosen)
}

// readUncommitted lets the next transaction, or the next statement where none is open, see what
// others have not committed. It holds for no other.
const readUncommitted = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; "

// jobsOf are the ids of rows, in their ascending order.
func jobsOf(rows []journal.Row) []int64 {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.Job
	}
	slices.Sort(ids)
	return ids
}

// without gives the ids that are not among some others; both are in ascending order.
func without(ids, others []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		_, found := slices.BinarySearch(others, id)
		return found
	})
}

// byKey makes the server find rows by their ids, not by reading the table, where it would meet
// others. What is to be known for that was asked before, by learnKey.
func (t *Table) byKey() string {
	if known := t.claims.column.Load(); known == nil || !known.primary {
		return ""
	}
	return " FORCE INDEX (PRIMARY)"
}

// learnKey asks what byKey needs, where it is not known. It takes a connection of its own.
func (t *Table) learnKey(ctx context.Context) error {
	_, err := t.targets(ctx)
	return err
}

// named chooses rows by id.
func (t *Table) named(ids []int64, names []string, found *layout) selection {
	chosen := selection{names: names}
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	for some := range slices.Chunk(ids, idsLimit) {
		chosen.add(t.selectRow(len(names), found)+t.byKey()+" WHERE id IN ("+rule.List(some)+") ORDER BY id "+found.version.locking(), args...)
	}
	return chosen
}
