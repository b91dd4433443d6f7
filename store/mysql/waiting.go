package mysql

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"
)

// Waiting implements store.Table. It asks twice in one round trip. What is committed shows rows
// that somebody's open transaction has changed and may leave as they were; what is not committed
// yet shows rows that somebody is about to insert, or to set back. Rows that are due wait, too.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) ([]string, error) {
	const op = "look for waiting jobs"
	if _, err := t.examined(ctx); err != nil {
		return nil, err
	}
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.fail(op, err)
	}
	waiting := map[string]bool{}
	for some := range slices.Chunk(names, waitingLimit) {
		err := t.indexed(ctx, func(found *layout) error {
			return t.retry(ctx, func() error { return t.lookWaiting(ctx, found, some, except, waiting) })
		})
		if err != nil {
			return nil, t.fail(op, err)
		}
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// lookWaiting notes for which of the targets there are rows that wait or are due.
func (t *Table) lookWaiting(ctx context.Context, found *layout, targets []string, except []int64, waiting map[string]bool) error {
	var look selection
	but := t.but(except)
	for i, target := range targets {
		if i > 0 {
			look.query += " UNION ALL "
		}
		begin := "(SELECT " + strconv.Itoa(i) + " AS place FROM " + t.name.quoted()
		look.query += begin + found.hint() + " WHERE status = 'waiting' AND target = ?" + but + " LIMIT 1)"
		look.args = append(look.args, target)
		if found.uses.Delays() {
			look.query += " UNION ALL " + begin + force(found.byDue) + " WHERE " + isDue + but + " LIMIT 1)"
			look.args = append(look.args, target)
		}
	}
	query, args := readUncommitted+look.query+"; "+look.query, slices.Concat(look.args, look.args)
	return t.once(ctx, func(conn *sql.Conn) (bool, error) {
		results, err := conn.QueryContext(ctx, query, args...)
		if err != nil {
			return false, err
		}
		defer results.Close()
		for {
			for results.Next() {
				var place int
				if err := results.Scan(&place); err != nil {
					return false, err
				}
				waiting[targets[place]] = true
			}
			if !results.NextResultSet() {
				return results.Err() == nil, results.Err()
			}
		}
	})
}
