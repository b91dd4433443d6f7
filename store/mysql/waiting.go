package mysql

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"

	"jobd/journal"
)

// Waiting implements store.Table. It asks twice in one round trip. What is committed shows rows
// that somebody's open transaction has changed and may leave as they were; what is not committed
// yet shows rows that somebody is about to insert.
func (t *Table) Waiting(ctx context.Context, targets []string, except []int64) ([]string, error) {
	const op = "look for waiting jobs"
	found, err := t.examined(ctx)
	if err != nil {
		return nil, err
	}
	names, err := t.comparable(ctx, targets)
	if err != nil {
		return nil, t.fail(op, err)
	}
	waiting := map[string]bool{}
	for some := range slices.Chunk(names, waitingLimit) {
		err := t.retry(ctx, func() error { return t.lookWaiting(ctx, found, some, except, waiting) })
		if err != nil {
			return nil, t.fail(op, err)
		}
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// lookWaiting notes for which of the targets there are waiting rows.
func (t *Table) lookWaiting(ctx context.Context, found *layout, targets []string, except []int64, waiting map[string]bool) error {
	var look selection
	but := t.but(except)
	for i, target := range targets {
		if i > 0 {
			look.query += " UNION ALL "
		}
		look.query += "(SELECT " + strconv.Itoa(i) + " AS place FROM " + t.name.quoted() + " WHERE status = 'waiting' AND target = ?" + but + " LIMIT 1)"
		look.args = append(look.args, target)
	}
	query, args := look.query, look.args
	if found.version.readsUncommitted() {
		query = readUncommitted + look.query + "; " + look.query
		args = append(args, args...)
	}
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

// NextDue implements store.Table.
func (t *Table) NextDue(context.Context, []string, []int64) (journal.Due, error) {
	return journal.Due{}, nil
}
