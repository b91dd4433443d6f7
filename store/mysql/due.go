package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"time"

	"jobd/journal"
	"jobd/store"
)

// clock is the server's, in microseconds since 1970. UNIX_TIMESTAMP of a time would go by the server's
// time zone, in which an hour comes twice a year.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// dueWindow is among how many due rows at least, those that are due for longest, a claim looks for
// the highest priority: no index has both orders. It reads and locks them all, and gives back those
// that it does not choose.
const dueWindow = 100

// dueLimit is how many due rows are read for so many that are wanted.
func (t *times) dueLimit(one ask) int {
	if t.uses.Has(store.ColumnPriority) && !one.sweep {
		return max(one.room, dueWindow)
	}
	return one.room
}

// waitingOrder is the order in which waiting rows are wanted, with a hint to the index that has it.
// Where the rows behind an id are asked for, and many wait, MariaDB passes the entries of all that have
// gone before them, unless the index is named.
func (t *times) waitingOrder(one ask) (hint, order string) {
	switch {
	case t.uses.Has(store.ColumnPriority) && !one.sweep:
		return force(t.byPriority), "priority DESC, id"
	case one.beyondLast() != "":
		return force(t.byID), "id"
	}
	return t.hint(), "id"
}

// dueOrder is the order in which due rows are wanted.
func dueOrder(one ask) string {
	if one.sweep {
		return "id"
	}
	return "run_at"
}

// addDue chooses rows of a target that are due, where the table has such rows.
func (t *Table) addDue(chosen *selection, one ask, but string, found *layout) {
	if !found.uses.Delays() {
		return
	}
	chosen.add(t.selectRow(0, found)+force(found.byDue)+" WHERE "+isDue+one.beyond()+but+" ORDER BY "+dueOrder(one)+" LIMIT ? "+found.version.locking(),
		one.target, found.dueLimit(one))
	chosen.asks = append(chosen.asks, one)
}

// sinceWhen is an expression for when a waiting row was created, where that decides which rows are
// taken.
func (l *layout) sinceWhen() string {
	if !l.ordered() {
		return "0"
	}
	return l.created.seconds()
}

// indexed does work that names indexes. Where one of them is gone, because somebody has dropped or
// renamed it, the table is examined again and the work done once more.
func (t *Table) indexed(ctx context.Context, work func(found *layout) error) error {
	found, err := t.examined(ctx)
	if err != nil {
		return err
	}
	if err = work(found); number(err) != errNoSuchIndex {
		return err
	}
	t.layout.CompareAndSwap(found, nil)
	if found, err = t.examined(ctx); err != nil {
		return err
	}
	return work(found)
}

// NextDue implements store.Table. It reads one entry of an index for each target, beside those of
// the rows that are left out.
func (t *Table) NextDue(ctx context.Context, targets []string, except []int64) (due journal.Due, err error) {
	const op = "look for the next delayed jobs"
	found, err := t.examined(ctx)
	if err != nil || !found.uses.Delays() {
		return due, err
	}
	names, err := t.comparable(ctx, targets)
	if err != nil || len(names) == 0 {
		return due, t.fail(op, err)
	}
	err = t.indexed(ctx, func(found *layout) error {
		return t.retry(ctx, func() (err error) {
			due, err = t.nextDue(ctx, found, names, except)
			return err
		})
	})
	return due, t.fail(op, err)
}

// nextDue asks for the time of the next delayed row of each target, in one round trip.
func (t *Table) nextDue(ctx context.Context, found *layout, targets []string, except []int64) (journal.Due, error) {
	var looks selection
	looks.add("SELECT " + clock + ", 0")
	but, place := t.but(except), 0
	for some := range slices.Chunk(targets, waitingLimit) {
		query, args := "", []any(nil)
		for _, target := range some {
			if query != "" {
				query += " UNION ALL "
			}
			query += "(SELECT " + strconv.Itoa(place) + ", " + found.number(store.ColumnRunAt) + " FROM " + found.table + force(found.byDue) +
				" WHERE status = 'delayed' AND target = ?" + but + " ORDER BY run_at LIMIT 1)"
			args = append(args, target)
			place++
		}
		looks.add(query, args...)
	}
	due := journal.Due{Next: map[string]int64{}}
	err := t.each(ctx, looks.query, looks.args, func(results *sql.Rows) error {
		var first, second int64
		err := results.Scan(&first, &second)
		if due.Now.IsZero() {
			due.Now = time.UnixMicro(first)
		} else {
			due.Next[targets[first]] = second
		}
		return err
	})
	return due, err
}

// earlier is the earlier one of two times; 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}
