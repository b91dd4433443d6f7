package mysql

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"time"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// Where a server has no SKIP LOCKED that can be relied on, rows are read without locks first, and
// locked by their primary key then, where their status is looked at again. A row that somebody else
// holds makes such a statement fail, or wait a little; the rows are divided until the free ones are
// known, and only these are locked.

// How often rows are locked that were free a moment ago, how often others are looked for where all
// were held, how many times as many rows as wanted are looked at while others are after the same
// rows, and how long it may take to find out which rows are free.
const (
	lockTries  = 5
	lookTries  = 6
	mostCrowd  = 15
	freeBudget = 5 * time.Second
)

// isKeyed tells whether rows are claimed so. They are, too, where an index was dropped without which
// a locking read would lock far more than it takes.
func (l *layout) isKeyed() bool { return l.version.locking() != skipLocked || l.isBare() }

// lockKeyed begins a transaction and locks rows of targets in it that wait or are due, by their keys.
func (t *Table) lockKeyed(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) ([]journal.Row, error) {
	held := slices.Clone(except)
	for try := range lookTries {
		chosen, err := t.candidates(ctx, conn, found, asks, held, 1<<try)
		if err != nil || len(chosen) == 0 {
			return nil, err
		}
		rows, locked, err := t.lockKeys(ctx, conn, found, keysOf(chosen), func(free []int64) selection {
			return t.keyed(chosen, free, found)
		})
		if err != nil {
			return nil, err
		}
		t.noteCrowd(len(rows) < len(chosen))
		if len(rows) == len(chosen) || len(rows) > 0 && (len(locked) == 0 || try == lookTries-1) {
			return rows, nil
		}
		held = append(held, locked...) // others may be free behind them
		rollback(ctx, conn)
	}
	return nil, nil
}

// noteCrowd learns whether others were after the same rows.
func (t *Table) noteCrowd(met bool) {
	crowd := t.claims.crowd.Load()
	if met {
		t.claims.crowd.Store(min(2*crowd+1, mostCrowd))
	} else if crowd > 0 {
		t.claims.crowd.Store(crowd - 1)
	}
}

// candidate is a row that waited, or was due, when it was looked at.
type candidate struct {
	id     int64
	target string
}

func keysOf(rows []candidate) []int64 {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.id
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// candidates reads rows that wait or are due, without locks. A claimer that is alone takes the first ones;
// where others are about, it takes as many of the first some, from any place on, lest all fight for
// the same.
func (t *Table) candidates(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64, factor int) (chosen []candidate, err error) {
	var looks selection
	but := t.but(except)
	window := factor * (1 + int(t.claims.crowd.Load()))
	for _, one := range asks {
		wide := one
		wide.room *= window
		hint, order := found.waitingOrder(one)
		looks.add("SELECT id, target, status, '', "+found.sinceWhen()+", 0, '', 0"+found.planned()+" FROM "+t.name.quoted()+hint+
			" WHERE status = 'waiting' AND target = ?"+one.beyond()+but+" ORDER BY "+order+" LIMIT ?", one.target, wide.room)
		looks.asks = append(looks.asks, wide)
		t.addCandidatesDue(&looks, wide, but, found)
	}
	rows, err := t.lock(ctx, conn, found, "", looks)
	if err != nil {
		return nil, err
	}
	byTarget := map[string][]candidate{}
	for _, row := range rows {
		byTarget[row.Target] = append(byTarget[row.Target], candidate{row.Job, row.Target})
	}
	for _, one := range asks {
		chosen = append(chosen, block(byTarget[one.target], one.room, t.claims.crowd.Load() > 0)...)
	}
	return chosen, nil
}

// block is so many neighbours of a list, the first ones or any.
func block(list []candidate, size int, anywhere bool) []candidate {
	from, rest := 0, len(list)-size
	if anywhere && rest > 0 {
		from = rand.IntN(rest + 1)
	}
	return list[from:min(from+size, len(list))]
}

// keyed chooses candidates that are free, where they still wait. The condition is wrapped, so that
// no index but the primary key's serves it, in which other rows would be met and waited for.
func (t *Table) keyed(candidates []candidate, free []int64, found *layout) (chosen selection) {
	ids := map[string][]int64{}
	for _, row := range candidates {
		if _, ok := slices.BinarySearch(free, row.id); ok {
			ids[row.target] = append(ids[row.target], row.id)
		}
	}
	for _, row := range candidates {
		if list := ids[row.target]; len(list) > 0 {
			chosen.add(t.selectRow(0, found)+t.byKey()+" WHERE id IN ("+rule.List(list)+") AND IF("+found.still()+" AND target = ?, 1, 0) ORDER BY id "+
				string(found.version.locking()), row.target)
			chosen.asks = append(chosen.asks, ask{target: row.target, room: len(list)})
			delete(ids, row.target)
		}
	}
	return chosen
}

// lockKeys begins a transaction and locks the rows which read selects for those ids, in ascending
// order, that nobody else holds. It tells which somebody holds.
func (t *Table) lockKeys(ctx context.Context, conn *sql.Conn, found *layout, ids []int64, read func(free []int64) selection) (
	rows []journal.Row, locked []int64, err error,
) {
	err = t.briefly(ctx, conn, found, func() error {
		free := ids
		for range lockTries {
			if len(free) == 0 {
				return nil
			}
			if rows, err = t.lock(ctx, conn, found, found.version.begin(), read(free)); !isHeld(err) {
				return err
			}
			rollback(ctx, conn)
			if free, err = t.free(ctx, conn, found, free); err != nil {
				return err
			}
			locked = without(ids, free)
		}
		locked = ids // they change hands too fast
		return nil
	})
	return rows, locked, err
}

// briefly is work that waits for locks no longer than it must, on a server that knows no better.
func (t *Table) briefly(ctx context.Context, conn *sql.Conn, found *layout, work func() error) error {
	if found.version.locking() != forUpdate {
		return work()
	}
	return t.impatient(ctx, conn, work)
}
