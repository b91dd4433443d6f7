package mysql

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"jobd/journal"
	"jobd/store"
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
	results, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	for results.Next() {
		var id int64
		if err := results.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, results.Err()
}

// ask is how many rows of a target are wanted, and when waiting ones were last looked for from the front.
type ask struct {
	rule.Ask
	front time.Time
}

// InnoDB keeps the index entry of a row that has left the status `waiting` until its purge comes by,
// about once a second on a busy server, and a locking read passes all of these entries before it
// meets the first row that waits: measured at 3,000 jobs/s, a claim's read rose from 0.5 ms to 12 ms
// between two purges. So a claim that follows a full one goes on behind the last row of that one.
//
// A row with a smaller id may have come to wait meanwhile: one that was set back, or whose
// transaction was committed late. It is not passed by for long. A claim that finds fewer rows than it
// has room for looks from the front in the same transaction, and at least one claim in frontInterval
// looks there first.

// frontInterval is how long claims may go on without a look at the rows with the smallest ids.
const frontInterval = 500 * time.Millisecond

// cursors are the claim cursors: they say where the next claim of each target goes on. Nothing of it
// outlives the process, and to forget it costs a slower read and no row.
type cursors struct {
	mu  sync.Mutex
	at  map[string]cursor
	now func() time.Time // nil: time.Now
}

// cursor is the last waiting row of a full claim, and when a claim of the target last looked from the
// front.
type cursor struct {
	job   int64
	front time.Time
}

func (o *cursors) clock() time.Time {
	if o.now != nil {
		return o.now()
	}
	return time.Now()
}

// begin gives what a claim asks for with the places from which it goes on.
func (o *cursors) begin(asks []ask) []ask {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	begun := make([]ask, len(asks))
	for i, one := range asks {
		one.front = now
		known, marked := o.at[one.Target]
		if marked && now.Sub(known.front) < frontInterval {
			one.Behind, one.front = known.job, known.front
		}
		begun[i] = one
	}
	return begun
}

// end keeps where the claims that follow go on: behind a claim that took as many rows as it had room
// for. All else is forgotten. looked are the asks as the claim looked for their rows at last.
func (o *cursors) end(looked []ask, rows []journal.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range looked {
		last, taken := int64(0), 0
		for _, row := range rows {
			if row.Target != one.Target {
				continue
			}
			taken++
			if row.Status == journal.RowWaiting {
				last = max(last, row.Job)
			}
		}
		delete(o.at, one.Target)
		if taken < one.Room || last == 0 {
			continue
		}
		if o.at == nil {
			o.at = make(map[string]cursor)
		}
		o.at[one.Target] = cursor{last, one.front}
	}
}

// forget lets the next claims of targets look from the front.
func (o *cursors) forget(asks []ask) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range asks {
		delete(o.at, one.Target)
	}
}

// goesOn tells whether claims may go on behind the one before: rows come in the order of their ids,
// and the index that serves it is the one with the entries of those that have gone.
func (l *layout) goesOn() bool { return !l.Uses.Has(store.ColumnPriority) }

// fromFront lets those asks begin at the front of which fewer rows wait behind their place than there
// is room for, and tells whether there are any.
func (o *cursors) fromFront(asks []ask, met map[string]int) (again []ask, short bool) {
	again = make([]ask, len(asks))
	for i, one := range asks {
		if one.Behind > 0 && met[one.Target] < one.Room {
			one.Behind, one.front, short = 0, o.clock(), true
		}
		again[i] = one
	}
	return again, short
}

// lockFromCursor begins a transaction, and locks and reads in it rows of targets that wait or are due,
// the waiting ones behind those of the claim before where enough are there.
func (t *Table) lockFromCursor(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) (
	rows []journal.Row, looked []ask, err error,
) {
	looked = t.cursors.begin(asks)
	rows, met, err := t.lockAsked(ctx, conn, found, begin+"; ", looked, except)
	if err != nil {
		return nil, nil, err
	}
	again, short := t.cursors.fromFront(looked, met)
	if !short {
		return rows, looked, nil
	}
	rows, _, err = t.lockAsked(ctx, conn, found, "", again, except)
	return rows, again, err
}
