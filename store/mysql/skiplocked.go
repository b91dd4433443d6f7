package mysql

import (
	"context"
	"database/sql"

	"jobd/store"
	"jobd/store/internal/rule"
)

// skipLocked applies some changes and passes by the rows that somebody else has locked. It takes a
// round trip more: one asks which rows can be locked, and locks them, the other updates those.
func (a *application) skipLocked(ctx context.Context, some []int) error {
	var free map[int64]bool
	var updates []update
	var matched []int64
	err := a.table.retryUpTo(ctx, a.tries, func() error {
		return waitedOnce(a.table.once(ctx, func(conn *sql.Conn) (committed bool, err error) {
			updates, matched = nil, nil
			if free, err = a.lockFree(ctx, conn, some); err != nil || len(free) == 0 {
				return false, err
			}
			if updates = a.among(some, free); len(updates) == 0 {
				return false, nil
			}
			matched, err = a.layout.follow(ctx, conn, updates)
			return err == nil, err
		}))
	})
	if err != nil {
		return err
	}
	for i, one := range updates {
		a.note(one, matched[i] > 0)
	}
	for _, index := range some {
		if !free[a.changes[index].Job] {
			a.outcomes[index] = store.Outcome{Fate: hidden}
		}
	}
	return nil
}

// lockFree opens a transaction and locks those rows of the changes that nobody else holds.
func (a *application) lockFree(ctx context.Context, conn *sql.Conn, some []int) (free map[int64]bool, err error) {
	ids := make([]int64, len(some))
	for i, index := range some {
		ids[i] = a.changes[index].Job
	}
	rows, err := conn.QueryContext(ctx, begin+"SELECT id FROM "+a.layout.table+" WHERE id IN ("+rule.List(ids)+") FOR UPDATE SKIP LOCKED")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	free = make(map[int64]bool, len(some))
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		free[id] = true
	}
	return free, rows.Err()
}

// among are the updates of those changes whose rows are in free.
func (a *application) among(some []int, free map[int64]bool) (updates []update) {
	for _, index := range some {
		if free[a.changes[index].Job] {
			updates = append(updates, a.updates[index])
		}
	}
	return updates
}
