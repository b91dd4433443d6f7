package mysql

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"jobd/store"
	"jobd/store/internal/rule"
)

// skipsLocked tells whether reading rows can pass by those that are locked.
func (l *layout) skipsLocked() bool { return l.version.locking() == skipLocked }

// rowLocked is why a row is held, in words for the operator.
const rowLocked = "the row is locked by somebody else"

// lockMemory remembers when a row was last found locked. For a while from then on nobody waits for locks first,
// or a row that stays locked would cost every batch the wait.
type lockMemory struct{ until atomic.Pointer[time.Time] }

// lockMemoryLasts is longer than the mirror lets pass before it tries a held row again.
const lockMemoryLasts = time.Minute

func (m *lockMemory) met() {
	until := time.Now().Add(lockMemoryLasts)
	m.until.Store(&until)
}

func (m *lockMemory) lately() bool {
	until := m.until.Load()
	return until != nil && time.Now().Before(*until)
}

// passing applies some changes and passes by the rows that somebody else has locked. It takes a round trip
// more: one asks which rows can be locked, and locks them, the other updates those.
func (a *application) passing(ctx context.Context, some []int) error {
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

// waitedOnce makes a lock wait that ended in vain the end of the tries.
func waitedOnce(err error) error {
	if isLockWait(err) {
		return backoff.Permanent(err)
	}
	return err
}

// look judges the changes whose updates met no row, and tells what the refused ones' rows hold. When reading fails for
// now, as where somebody has locked the whole table since, the changes are tried again.
func (a *application) look(ctx context.Context) error {
	var ids []int64
	for i, change := range a.changes {
		if fate := a.outcomes[i].Fate; fate == hidden || fate == store.Refused || fate == missed && !rule.Release(change) {
			ids = append(ids, change.Job)
		}
	}
	if len(ids) == 0 {
		a.judge(nil)
		return nil
	}
	var found map[int64]*rule.Found
	err := a.table.retryUpTo(ctx, a.tries, func() (err error) {
		found, err = a.table.find(ctx, a.layout, ids)
		return waitedOnce(err)
	})
	if isLockWait(err) {
		a.holdUnseen(err)
		return nil
	}
	if err == nil {
		a.judge(found)
	}
	return err
}

// judge gives the changes that were looked at their outcomes.
func (a *application) judge(found map[int64]*rule.Found) {
	for i, change := range a.changes {
		row := found[change.Job]
		switch outcome := &a.outcomes[i]; {
		case outcome.Fate == hidden && row != nil:
			*outcome = store.Outcome{Fate: store.Held, Note: rowLocked}
			a.table.locked.met()
		case outcome.Fate == hidden, outcome.Fate == missed:
			*outcome = rule.Judge(change, row)
		case outcome.Fate == store.Refused && row != nil:
			outcome.Found = &row.Row
		}
	}
}

// holdUnseen leaves the changes whose rows could not be read for later.
func (a *application) holdUnseen(err error) {
	for i, change := range a.changes {
		switch outcome := &a.outcomes[i]; {
		case outcome.Fate == missed && rule.Release(change):
			*outcome = rule.Judge(change, nil)
		case outcome.Fate == hidden, outcome.Fate == missed:
			*outcome = store.Outcome{Fate: store.Held, Note: err.Error()}
		}
	}
}
