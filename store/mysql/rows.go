package mysql

import (
	"context"
	"database/sql"
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

// cursors are the claim cursors. For each target with a full claim they hold the id of its last waiting
// row, after which the next claim goes on, and the time of the last look from the front. They are in
// memory only: if they are lost, a read is slower, and no row is missed.
type cursors struct {
	mu  sync.Mutex
	at  map[string]ask
	now func() time.Time // nil: time.Now
}

func (o *cursors) clock() time.Time {
	if o.now != nil {
		return o.now()
	}
	return time.Now()
}

// begin notes in each ask of a claim the id after which the claim goes on.
func (o *cursors) begin(asks []ask) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	for i := range asks {
		one := &asks[i]
		one.Behind, one.front = 0, now
		if known, is := o.at[one.Target]; is && now.Sub(known.front) < frontInterval {
			one.Behind, one.front = known.Behind, known.front
		}
	}
}

// end keeps the ids after which the next claims go on: for each target of which the claim took as many
// rows as it had room for. For the other targets it forgets the cursor.
func (o *cursors) end(asks []ask, rows []journal.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range asks {
		taken := 0
		one.Behind = 0
		for _, row := range rows {
			if row.Target != one.Target {
				continue
			}
			taken++
			if row.Status == journal.RowWaiting {
				one.Behind = max(one.Behind, row.Job)
			}
		}
		delete(o.at, one.Target)
		if taken < one.Room || one.Behind == 0 {
			continue
		}
		if o.at == nil {
			o.at = make(map[string]ask)
		}
		o.at[one.Target] = one
	}
}

// lockFromCursor begins a transaction, in which it locks and reads rows of targets that wait or are due.
// It reads waiting rows after those of the claim before; if there are too few, it reads once more from
// the front. It leaves in the asks the ids after which it has read the last time.
func (t *Table) lockFromCursor(ctx context.Context, conn *sql.Conn, found *layout, asks []ask, except []int64) ([]journal.Row, error) {
	t.cursors.begin(asks)
	rows, met, err := t.lockAsked(ctx, conn, found, begin+"; ", asks, except)
	short := false
	for i := range asks {
		if one := &asks[i]; one.Behind > 0 && met[one.Target] < one.Room {
			one.Behind, one.front, short = 0, t.cursors.clock(), true
		}
	}
	if err == nil && short {
		rows, _, err = t.lockAsked(ctx, conn, found, "", asks, except)
	}
	return rows, err
}
