package mysql

import (
	"context"
	"database/sql"
	"strconv"
	"sync"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// selection is the statements that read the rows of a claim, one result for each.
type selection struct {
	query string
	args  []any
	asks  []ask    // what each result is about; none where rows are chosen by id
	names []string // those that targets are compared with

	met map[string]int // how many waiting rows of each target were met; nil: nobody counts
}

// add puts another statement behind the others.
func (s *selection) add(query string, args ...any) {
	s.query += query + "; "
	s.args = append(s.args, args...)
}

// lock begins the transaction and locks and reads the chosen rows, in one round trip: of each target as many
// as are wanted, where several results are about it. No content of the table makes it fail.
func (t *Table) lock(ctx context.Context, conn *sql.Conn, found *layout, start string, chosen selection) (
	rows []journal.Row, err error,
) {
	results, err := conn.QueryContext(ctx, start+chosen.query, chosen.args...)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	var lines []rule.Line // of one target
	for n := 0; ; n++ {
		for results.Next() {
			var one rule.Line
			var place int
			if err := found.ScanRow(results.Scan, &one, &one.Job, &place); err != nil {
				return nil, err
			}
			switch {
			case n < len(chosen.asks):
				one.Target = chosen.asks[n].target // the collation may have matched another spelling
			case place > 0:
				one.Target = chosen.names[place-1]
			}
			if chosen.met != nil && one.Status == journal.RowWaiting {
				chosen.met[one.Target]++
			}
			lines = append(lines, one)
		}
		more := results.NextResultSet()
		if more && n+1 < len(chosen.asks) && chosen.asks[n+1].target == chosen.asks[n].target {
			continue
		}
		if n < len(chosen.asks) && found.Uses.Ordered() {
			lines = rule.InOrder(lines, chosen.asks[n].room)
		}
		if rows, lines = append(rows, rule.Rows(lines)...), nil; !more {
			return rows, results.Err()
		}
	}
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

// but is the condition that leaves out rows by their ids, those that are no ids to us among them.
func (l *layout) but(except []int64) string {
	return " AND id NOT IN (" + rule.List(append([]int64{0}, except...)) + ")" + l.AnID
}

// ask is how many rows of a target are wanted.
type ask struct {
	target string
	room   int

	cursor int64     // waiting rows are looked for behind this id; 0: from the front
	front  time.Time // when they were last looked for from there
}

// beyondLast is the condition that a row that waits is behind those of the claim before.
func (a ask) beyondLast() string {
	if a.cursor == 0 {
		return ""
	}
	return " AND id > " + strconv.FormatInt(a.cursor, 10)
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
		known, marked := o.at[one.target]
		if marked && now.Sub(known.front) < frontInterval {
			one.cursor, one.front = known.job, known.front
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
			if row.Target != one.target {
				continue
			}
			taken++
			if row.Status == journal.RowWaiting {
				last = max(last, row.Job)
			}
		}
		delete(o.at, one.target)
		if taken < one.room || last == 0 {
			continue
		}
		if o.at == nil {
			o.at = make(map[string]cursor)
		}
		o.at[one.target] = cursor{last, one.front}
	}
}

// forget lets the next claims of targets look from the front.
func (o *cursors) forget(asks []ask) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range asks {
		delete(o.at, one.target)
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
		if one.cursor > 0 && met[one.target] < one.room {
			one.cursor, one.front, short = 0, o.clock(), true
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
	chosen := t.choose(found, looked, except)
	chosen.met = make(map[string]int, len(asks))
	if rows, err = t.lock(ctx, conn, found, begin, chosen); err != nil {
		return nil, nil, err
	}
	again, short := t.cursors.fromFront(looked, chosen.met)
	if !short {
		return rows, looked, nil
	}
	rows, err = t.lock(ctx, conn, found, "", t.choose(found, again, except))
	return rows, again, err
}
