package mysql

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"jobd/store/internal/rule"
)

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

// free tells which of some ids nobody else holds, those of rows that don't exist among them,
// outside of any transaction. Halves of what fails are tried; where each failure takes a wait, all
// are tried one by one, as long as there is time.
func (t *Table) free(ctx context.Context, conn *sql.Conn, found *layout, ids []int64) ([]int64, error) {
	clause := found.version.locking()
	if clause == skipLocked {
		clause = noWait
	}
	if clause != forUpdate {
		return t.freeAmong(ctx, conn, clause, ids)
	}
	var free []int64
	for deadline := time.Now().Add(freeBudget); len(ids) > 0 && time.Now().Before(deadline); ids = ids[1:] {
		one, err := t.freeAmong(ctx, conn, clause, ids[:1])
		if err != nil {
			return nil, err
		}
		free = append(free, one...)
	}
	return free, nil
}

// freeAmong tries to lock rows, and where it can't, the halves of them.
func (t *Table) freeAmong(ctx context.Context, conn *sql.Conn, clause locking, ids []int64) ([]int64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	_, err := conn.ExecContext(ctx, "SELECT id FROM "+t.name.quoted()+t.byKey()+" WHERE id IN ("+rule.List(ids)+") "+string(clause))
	if !isHeld(err) {
		return ids, err
	}
	if len(ids) == 1 {
		return nil, nil
	}
	first, err := t.freeAmong(ctx, conn, clause, ids[:len(ids)/2])
	if err != nil {
		return nil, err
	}
	second, err := t.freeAmong(ctx, conn, clause, ids[len(ids)/2:])
	return append(slices.Clone(first), second...), err
}

// isHeld tells that somebody else has a lock.
func isHeld(err error) bool {
	switch number(err) {
	case errLockWaitTimeout, errLockNoWait:
		return true
	}
	return false
}

// without gives the ids that are not among some others; both are in ascending order.
func without(ids, others []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
		_, found := slices.BinarySearch(others, id)
		return found
	})
}
