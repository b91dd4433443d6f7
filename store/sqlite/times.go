package sqlite

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"jobd/journal"
	"jobd/store"
)

// times is what the table is like that is about time: which of the optional columns are jobd's, and
// the indexes that claims name where there are several that SQLite could take for the right one.
type times struct {
	uses       store.Uses
	byID       string // the index on status, target and id; "": none
	byDue      string // that on status, target and run_at
	byPriority string // that on status, target, priority and id
}

// ordered tells whether claims need more than the order of ids, and so name their indexes.
func (t *times) ordered() bool { return t.uses.Delays() || t.uses.Has(store.ColumnPriority) }

// by has a statement use an index, where it is known.
func by(index string) string {
	if index == "" {
		return ""
	}
	return " INDEXED BY " + quote(index)
}

// What stands for a value that is no number: in SQLite any value may stand in any column. A time of
// that kind is beyond all others, and a count is negative, so that somebody tells what is wrong with
// the row.
const (
	noTime  = math.MaxInt64
	noCount = -1
)

// longestText is how much is read of a schedule or a zone; none is so long.
const longestText = 1000

// planned are the columns that rows are read with beside the usual ones, with a comma before each:
// what a row says about time, and its priority. NULL reads as nothing.
func (t *times) planned() (list string) {
	if !t.uses.Any() {
		return ""
	}
	for _, one := range []struct {
		name string
		odd  int64
	}{
		{store.ColumnRunAt, noTime},
		{store.ColumnPlannedAt, noTime},
		{store.ColumnAttempts, noCount},
		{store.ColumnMaxAttempts, noCount},
		{store.ColumnTimeout, noCount},
		{store.ColumnPriority, 0},
	} {
		list += ", " + t.number(one.name, one.odd)
	}
	return list + ", " + t.text(store.ColumnSchedule) + ", " + t.text(store.ColumnTimeZone)
}

// number is an expression for a column's number, or what stands for one; 0 where it is not used.
func (t *times) number(name string, odd int64) string {
	if !t.uses.Has(name) {
		return "0"
	}
	return "CASE typeof(" + name + ") WHEN 'integer' THEN " + name + " WHEN 'null' THEN 0 WHEN 'real' THEN CAST(" + name + " AS INTEGER) ELSE " +
		strconv.FormatInt(odd, 10) + " END"
}

// text is an expression for a column's text; empty where it is not used.
func (t *times) text(name string) string {
	if !t.uses.Has(name) {
		return "''"
	}
	return "COALESCE(SUBSTR(CAST(" + name + " AS TEXT), 1, " + strconv.Itoa(longestText) + "), '')"
}

// line is a row with what decides about its turn.
type line struct {
	journal.Row
	priority int64
}

// scan reads a row's columns, and behind them those of planned where the table uses any.
func (t *times) scan(scan func(...any) error, row *journal.Row, fields ...any) (priority int64, err error) {
	if !t.uses.Any() {
		return 0, scan(fields...)
	}
	var p journal.Plan
	err = scan(append(fields, &p.RunAt, &p.PlannedAt, &p.Attempts, &p.MaxAttempts, &p.Timeout, &priority, &p.Schedule, &p.Zone)...)
	row.Plan = &p
	return priority, err
}

// signal is an expression for the sig of a row that has ended; of one that comes back, too.
func (t *times) signal() string {
	const sig = " THEN COALESCE(CAST(sig AS TEXT), '')"
	if t.uses.Delays() {
		return "CASE status WHEN 'done'" + sig + " WHEN 'delayed'" + sig + " ELSE '' END"
	}
	return "CASE status WHEN 'done'" + sig + " ELSE '' END"
}

// inTurn gives the first rows of one target, of those that wait and those that are due: higher
// priority first, then what is earlier. What waits does so since it was created, what is due since
// then; where nobody knows when a waiting row was created, it is left to chance: neither holds up the
// other for ever. A sweep goes by ids.
func inTurn(waiting, due []line, room int, sweep bool) []journal.Row {
	if sweep {
		waiting = slices.SortedFunc(slices.Values(append(waiting, due...)), func(a, b line) int { return cmp.Compare(a.Job, b.Job) })
		due = nil
	}
	slices.SortStableFunc(due, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Plan.RunAt, b.Plan.RunAt), cmp.Compare(a.Job, b.Job))
	})
	rows := make([]journal.Row, 0, min(room, len(waiting)+len(due)))
	for len(rows) < cap(rows) {
		from := &waiting
		if len(waiting) == 0 || len(due) > 0 && goesFirst(due[0], waiting[0]) {
			from = &due
		}
		rows = append(rows, (*from)[0].Row)
		*from = (*from)[1:]
	}
	return rows
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

// rowsOf are the rows of lines.
func rowsOf(lines []line) []journal.Row {
	rows := make([]journal.Row, len(lines))
	for i, one := range lines {
		rows[i] = one.Row
	}
	return rows
}
