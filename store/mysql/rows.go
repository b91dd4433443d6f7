package mysql

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// lock sends statements that lock and read rows, in one round trip, and gives the rows of each. start
// begins the transaction, where it has not begun yet.
func (t *Table) lock(ctx context.Context, conn *sql.Conn, found *layout, start string, statements []rule.Statement, names []string) (
	lines [][]rule.Line, err error,
) {
	var args []any
	for _, one := range statements {
		start += one.Query + "; "
		args = append(args, one.Args...)
	}
	results, err := conn.QueryContext(ctx, start, args...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	for _, one := range statements {
		some, err := found.Lines(results, one, names)
		if err != nil {
			return nil, err
		}
		lines = append(lines, some)
		results.NextResultSet()
	}
	return lines, results.Err()
}

// lockAsked locks and reads rows of targets that wait or are due: of each as many as are wanted. met is
// how many rows of each target wait.
func (t *Table) lockAsked(ctx context.Context, conn *sql.Conn, found *layout, start string, asks []ask, except []int64) (
	rows []journal.Row, met map[string]int, err error,
) {
	var statements []rule.Statement
	for _, one := range asks {
		statements = append(statements, found.Choose(one.Ask, except)...)
	}
	lines, err := t.lock(ctx, conn, found, start, statements, nil)
	if err != nil {
		return nil, nil, err
	}
	met = make(map[string]int, len(asks))
	each := len(lines) / len(asks)
	for i, one := range asks {
		some := slices.Concat(lines[i*each : (i+1)*each]...)
		for _, line := range some {
			if line.Status == journal.RowWaiting {
				met[one.Target]++
			}
		}
		if found.Uses.Ordered() {
			some = rule.InOrder(some, one.Room)
		}
		rows = append(rows, rule.Rows(some)...)
	}
	return rows, met, nil
}

// idsOf reads the ids of a query.
func idsOf(ctx context.Context, conn *sql.Conn, query string) (ids []int64, err error) {
	err = rule.Each(ctx, conn, query, nil, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// A locking read from the front passes the index entries of all rows that have left the status
// `waiting` until InnoDB's purge comes by, and those that other workers hold: at 3,000 jobs/s a claim's
// read rose from 0.5 ms to 12 ms between two purges, and 64 workers on one target got a third of what
// they get on 64. So a claim that follows a full one locks rows by their ids, out of a list of
// candidates that it has read without locks, for some claims at once. Where others have been faster,
// it takes them from a place of its own, further behind.
//
// A list is a hint. A candidate that another worker has, or had, is passed by. A claim that finds
// fewer rows than it has room for looks from the front in the same transaction, before anything is
// decided, and no list is older than listAge: a row that began to wait before others of the list is
// not passed by for long.

const (
	// listAge is how old a list may become.
	listAge = 500 * time.Millisecond
	// listClaims is for how many claims a list is read.
	listClaims = 16
	// mostAside is behind how many of the first rows that wait a claim takes its place, at most.
	mostAside = 2000
)

// ask is how many rows of a target are wanted, and the candidates for them, with which IDs begin.
type ask struct {
	rule.Ask
	list  []int64
	read  time.Time // when list was
	aside int       // behind how many of the first rows that wait the next list begins, at most
}

// candidates are the lists of targets whose last claim was a full one. They are in memory only: if they
// are lost, a read is slower, and no row is missed.
type candidates struct {
	mu  sync.Mutex
	of  map[string]ask
	now func() time.Time // nil: time.Now
}

func (c *candidates) clock() time.Time {
	if c.now != nil {
		return c.now()
	}
	return time.Now()
}

// take gives an ask the candidates of its target, if the last claim was a full one, but none that are too old
// or too few.
func (c *candidates) take(one *ask) (full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, full := c.of[one.Target]
	one.list, one.read, one.aside = known.list, known.read, known.aside
	if len(one.list) < one.Room || c.clock().Sub(one.read) >= listAge {
		one.list = nil
	}
	return full
}

// end keeps the candidates for the next claims of each target of which the claim took as many rows as it had
// room for, without those that it has looked at. For other targets it forgets them.
func (c *candidates) end(asks []ask, rows []journal.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken, last := map[string]int{}, map[string]int64{}
	for _, row := range rows {
		taken[row.Target]++
		if row.Status == journal.RowWaiting {
			last[row.Target] = max(last[row.Target], row.Job)
		}
	}
	for _, one := range asks {
		delete(c.of, one.Target)
		if taken[one.Target] < one.Room {
			continue
		}
		if len(one.IDs) > 0 {
			looked, _ := slices.BinarySearch(one.IDs, last[one.Target]+1)
			one.list = one.list[looked:]
			switch {
			case looked > 2*one.Room:
				one.elsewhere()
			case looked == one.Room:
				one.aside = one.aside * 15 / 16
			}
		}
		if c.of == nil {
			c.of = make(map[string]ask)
		}
		one.IDs = nil
		c.of[one.Target] = one
	}
}

// elsewhere has the next claim read candidates that others are less likely to take.
func (one *ask) elsewhere() {
	one.IDs, one.list, one.aside = nil, nil, min(max(2*one.aside, one.Room), mostAside)
}

// placeOf is behind how many of the first rows a list of so many begins. The very first row is in as many lists as
// any other, at least: none is passed by for ever.
func placeOf(aside, limit int) int { return max(0, rand.IntN(aside+limit)-limit+1) }

// lockCandidates begins a transaction, in which it locks and reads rows of targets that wait or are due. It
// looks for waiting ones among the candidates of their targets, where it has some; if there are too few, it
// reads once more from the front.
func (t *Table) lockCandidates(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) ([]journal.Row, error) {
	if err := t.list(ctx, conn, found, asks, except); err != nil {
		return nil, err
	}
	rows, met, err := t.lockAsked(ctx, conn, found, begin+"; ", asks, except)
	short := false
	for i := range asks {
		if one := &asks[i]; len(one.IDs) > 0 && met[one.Target] < one.Room {
			one.elsewhere()
			short = true
		}
	}
	if err == nil && short {
		rows, _, err = t.lockAsked(ctx, conn, found, "", asks, except)
	}
	return rows, err
}

// list gives each ask its candidates, and reads those that are missing, without locks: without those that
// somebody is about to claim, if the server shows what is not committed.
func (t *Table) list(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) error {
	if !found.Lists() {
		return nil
	}
	for i := range asks {
		one := &asks[i]
		one.IDs = nil
		if !t.candidates.take(one) {
			continue
		}
		if one.list == nil {
			one.read = t.candidates.clock()
			limit := min(listClaims*one.Room, rule.IDsLimit)
			query := found.Candidates(one.Target, except, limit, placeOf(one.aside, limit))
			err := rule.Each(ctx, conn, query.Query, query.Args, func(scan func(...any) error) error {
				var id int64
				err := scan(&id)
				one.list = append(one.list, id)
				return err
			})
			if err != nil {
				return err
			}
		}
		switch few := 2 * one.Room; {
		case len(one.list) < one.Room: // the end is near: the front will do
			one.aside /= 2
		case one.aside > 0 || len(one.list) < few:
			one.IDs = one.list
		default: // nobody else seems to claim
			one.IDs = one.list[:few]
		}
	}
	return nil
}
