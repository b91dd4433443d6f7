package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// What the optional columns hold at most of a text: a longer one is no schedule and no zone, and
// nobody is to carry it about.
const (
	longestSchedule = "1000"
	longestZone     = "255"
)

// times is what the table is like that is about time: which of the optional columns are jobd's, and
// the indexes that claims name where there are several that a server could take for the right one.
type times struct {
	uses       store.Uses
	optional   map[string]column // by name
	byID       string            // the index on status, target and id; "": none
	byDue      string            // that on status, target and run_at
	byPriority string            // that on status, target, priority and id
	bare       string            // which of them somebody has dropped under way, and what mends it: nothing is claimed
}

// ordered tells whether claims need more than the order of ids, and so have to name their indexes.
func (t *times) ordered() bool { return t.uses.Delays() || t.uses.Has(store.ColumnPriority) }

// force makes the server take an index. With several that begin with the same columns the server
// may take the wrong one, or none.
func force(index string) string {
	if index == "" {
		return ""
	}
	return " FORCE INDEX (" + quote(index) + ")"
}

// hint makes the server take the index that has the order of ids, where it could take another one for
// the right one. With no columns about time it finds it by itself.
func (t *times) hint() string {
	if !t.ordered() {
		return ""
	}
	return force(t.byID)
}

// isDue is the condition that a row is due. The server's clock decides, for all workers alike. A time
// from the year 2100 on is one in milliseconds, or another mistake, which nobody would ever see come:
// such a row is taken at once, behind all others, so that it can be told.
const (
	isDue = "status = 'delayed' AND target = ? AND " + now
	now   = "(run_at <= UNIX_TIMESTAMP() OR run_at >= 4102444800)"
)

// planned are the columns that selectRow reads beside the usual ones, with a comma before each: what
// a row says about time, and its priority. NULL reads as nothing.
func (t *times) planned() string {
	if !t.uses.Any() {
		return ""
	}
	var list strings.Builder
	for _, name := range []string{
		store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnMaxAttempts, store.ColumnTimeout, store.ColumnPriority,
	} {
		list.WriteString(", " + t.number(name))
	}
	return list.String() + ", " + t.text(store.ColumnSchedule, longestSchedule) + ", " + t.text(store.ColumnTimeZone, longestZone)
}

// number is an expression for a column's number; 0 where it is not used. It has the range of an
// int64.
func (t *times) number(name string) string {
	c, used := t.optional[name]
	switch {
	case !used:
		return "0"
	case c.kind == "bigint" && strings.Contains(c.definition, "unsigned"):
		return "CAST(LEAST(COALESCE(" + quote(c.name) + ", 0), 9223372036854775807) AS SIGNED)"
	}
	return c.seconds()
}

// text is an expression for a column's text, up to so many characters; empty where it is not used.
func (t *times) text(name, most string) string {
	c, used := t.optional[name]
	if !used {
		return "''"
	}
	return "COALESCE(LEFT(" + quote(c.name) + ", " + most + "), '')"
}

// plan is where a row's columns about time are read to.
type plan struct {
	journal.Plan
	priority int64
}

// fields are where the columns of planned are read to, in their order.
func (p *plan) fields() []any {
	return []any{&p.RunAt, &p.PlannedAt, &p.Attempts, &p.MaxAttempts, &p.Timeout, &p.priority, &p.Schedule, &p.Zone}
}

// scan reads a row's columns, and behind them those of planned where the table uses any. So a
// table that uses none is read as ever.
func (t *times) scan(results *sql.Rows, row *journal.Row, fields ...any) (priority int64, err error) {
	if !t.uses.Any() {
		return 0, results.Scan(fields...)
	}
	var p plan
	err = results.Scan(append(fields, p.fields()...)...)
	row.Plan = &p.Plan
	return p.priority, err
}

// inOrder sorts what was found of one target, and gives the first ones: higher priority first, then
// what is earlier. What waits does so since it was created, what is due since then; where nobody
// knows when a waiting row was created, it is left to chance: neither holds up the other for ever. A
// sweep goes by ids.
func inOrder(found []line, room int, sweep bool) []line {
	if sweep {
		slices.SortFunc(found, func(a, b line) int { return cmp.Compare(a.Job, b.Job) })
		return found[:min(room, len(found))]
	}
	var waiting, due []line
	for _, one := range found {
		if one.Status == journal.RowDelayed {
			due = append(due, one)
		} else {
			waiting = append(waiting, one)
		}
	}
	slices.SortFunc(waiting, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Job, b.Job))
	})
	slices.SortFunc(due, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Plan.RunAt, b.Plan.RunAt), cmp.Compare(a.Job, b.Job))
	})
	first := make([]line, 0, min(room, len(found)))
	for len(first) < cap(first) {
		from := &waiting
		if len(waiting) == 0 || len(due) > 0 && goesFirst(due[0], waiting[0]) {
			from = &due
		}
		first = append(first, (*from)[0])
		*from = (*from)[1:]
	}
	return first
}

// goesFirst tells whether a due row goes before a waiting one.
func goesFirst(due, waiting line) bool {
	if due.priority != waiting.priority {
		return due.priority > waiting.priority
	}
	if waiting.Created == 0 {
		return rand.IntN(2) == 0
	}
	return due.Plan.RunAt < waiting.Created
}
