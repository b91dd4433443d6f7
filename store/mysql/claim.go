package mysql

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Claim implements store.Table.
func (t *Table) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	var asks []ask
	for _, target := range slices.Sorted(maps.Keys(room)) {
		if room[target] > 0 {
			asks = append(asks, ask{target: target, room: room[target]})
		}
	}
	return t.claimWaiting(ctx, asks, except, decide)
}

// ClaimBehind implements store.Table.
func (t *Table) ClaimBehind(ctx context.Context, target string, behind int64, room int, except []int64, decide store.Decide) error {
	return t.claimWaiting(ctx, []ask{{target: target, room: room, behind: behind, sweep: true}}, except, decide)
}

// claimWaiting claims rows that wait or are due.
func (t *Table) claimWaiting(ctx context.Context, asks []ask, except []int64, decide store.Decide) error {
	err := t.indexed(ctx, func(found *layout) error {
		if found.bare != "" {
			return rule.Misfit{Text: found.bare}
		}
		run := &claim{table: t, layout: found, decide: decide}
		err := run.waiting(ctx, asks, except)
		if err != nil && !run.decided && t.isDividable(err) {
			err = run.divided(ctx, asks, except, err)
		}
		return err
	})
	return t.failures.FailClaim("claim waiting jobs", err)
}

// waiting claims rows of targets that wait or are due.
func (c *claim) waiting(ctx context.Context, asks []ask, except []int64) error {
	if len(asks) == 0 {
		return nil
	}
	var looked []ask
	var rows []journal.Row
	err := c.run(ctx, func(ctx context.Context, conn *sql.Conn) (_ []journal.Row, err error) {
		rows, looked, err = c.table.lockWaiting(ctx, conn, c.layout, asks, except)
		return rows, err
	}, false)
	if err == nil && c.all && c.layout.goesOn() {
		c.table.claims.onward.end(looked, rows)
	} else {
		c.table.claims.onward.forget(asks)
	}
	return err
}

// lockWaiting begins a transaction and locks rows of targets in it that wait or are due. It tells
// from where it looked for them.
func (t *Table) lockWaiting(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) (rows []journal.Row, looked []ask, err error) {
	if found.goesOn() {
		return t.lockOnward(ctx, conn, found, asks, except)
	}
	rows, err = t.lock(ctx, conn, found, begin, t.choose(found, asks, except))
	return rows, asks, err
}

// choose chooses rows of targets that wait or are due.
func (t *Table) choose(found *layout, asks []ask, except []int64) (chosen selection) {
	but := t.but(except)
	for _, one := range asks {
		t.addWaiting(&chosen, one, but, found)
		t.addDue(&chosen, one, but, found)
	}
	return chosen
}

// addWaiting chooses rows of a target that has room. A statement for each, equality on status
// and target and the order of ids, is what the index serves: with target IN (…) every
// candidate is sorted and locked (pitfall 2). The same goes for the order of priorities, and for
// that of times.
func (t *Table) addWaiting(chosen *selection, one ask, but string, found *layout) {
	hint, order := found.waitingOrder(one)
	chosen.add(t.selectRow(0, found)+hint+" WHERE status = 'waiting' AND target = ?"+one.beyondLast()+but+" ORDER BY "+order+" LIMIT ? "+found.version.locking(), one.target, one.room)
	chosen.asks = append(chosen.asks, one)
}

// isDividable tells whether an error from before decide may be about one target of several.
func (t *Table) isDividable(err error) bool {
	return number(err) != 0 && number(err) != errNoSuchIndex && !isTransient(err) && !isUnusable(err) && !lostLink(err)
}

// divided claims for each of the targets which the table lets look for their rows, after a claim
// for all of them together has failed. Each is tried by itself to know which they are.
func (c *claim) divided(ctx context.Context, asks []ask, except []int64, cause error) error {
	aside := map[string]string{}
	var good []ask
	for _, one := range asks {
		err := c.try(ctx, one, except)
		switch {
		case err == nil:
			good = append(good, one)
		case !c.table.isDividable(err):
			return err
		default:
			aside[one.target] = err.Error()
			c.table.warn("the table can't be searched for target "+one.target, "error", err)
		}
	}
	if err := c.waiting(ctx, good, except); err != nil || c.decided || len(aside) == 0 {
		return err
	}
	return &store.RefusedTargets{Names: aside, Err: cause}
}

// try locks the rows of one target and gives them back.
func (c *claim) try(ctx context.Context, one ask, except []int64) error {
	return c.table.retry(ctx, func() error {
		return c.table.once(ctx, func(conn *sql.Conn) (bool, error) {
			_, _, err := c.table.lockWaiting(ctx, conn, c.layout, []ask{one}, except)
			return false, err
		})
	})
}
