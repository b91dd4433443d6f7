package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// farAway is the beginning of the year 2100. A row that is due from there on is a mistake, one in
// milliseconds mostly, and claims take it at once, so that somebody tells what is wrong with it.
const farAway = 4102444800

// dueWindow is among how many due rows at least, those that are due for longest, a claim looks for
// the highest priority: no index has both orders.
const dueWindow = 500

// isDue is the condition that a row of a target is due by a clock, isFar that its time is a mistake.
var (
	isDue = "status = 'delayed' AND target = ? AND run_at <= ? AND " + anID
	isFar = "status = 'delayed' AND target = ? AND run_at >= " + strconv.Itoa(farAway) + " AND " + anID
)

// now is the clock by which rows are due: that of the host, on which the file is.
func now() int64 { return time.Now().Unix() }

// turn is how rows of one target are wanted.
type turn struct {
	target  string
	further string // a condition more
	sweep   bool   // in the order of ids
	room    int
	except  []int64
}

// choice is one statement that chooses rows.
type choice struct {
	index, condition, order string
	limit                   int
	args                    []any
}

// query is what stands behind the columns that are read.
func (c choice) query(table string) (text string, args []any) {
	return " FROM " + quote(table) + by(c.index) + " WHERE " + c.condition + " ORDER BY " + c.order + " LIMIT ?", append(c.args, c.limit)
}

// waiting chooses those that wait.
func (t *times) waiting(of turn) choice {
	c := choice{
		condition: "status = 'waiting' AND target = ? AND " + anID + of.further + " AND id NOT IN (" + rule.List(of.except) + ")",
		order:     "id", limit: of.room, args: []any{of.target},
	}
	if t.ordered() {
		c.index = t.byID
	}
	if t.uses.Has(store.ColumnPriority) && !of.sweep {
		c.index, c.order = t.byPriority, "priority DESC, id"
	}
	return c
}

// due chooses those that are due, and those whose time is a mistake; none where the table has no
// such rows.
func (t *times) due(of turn) []choice {
	if !t.uses.Delays() {
		return nil
	}
	rest := of.further + " AND id NOT IN (" + rule.List(of.except) + ")"
	c := choice{index: t.byDue, condition: isDue + rest, order: "run_at", limit: of.room, args: []any{of.target, now()}}
	if t.uses.Has(store.ColumnPriority) {
		c.limit = max(of.room, dueWindow)
	}
	far := choice{index: t.byDue, condition: isFar + rest, order: "run_at", limit: of.room, args: []any{of.target}}
	if of.sweep {
		c.order, far.order = "id", "id"
	}
	return []choice{c, far}
}

// claimable reads the rows of one target that a claim takes. Where fewer wait than are wanted, those
// are looked for that no worker can claim.
func (t *Table) claimable(ctx context.Context, tx *sql.Tx, found *layout, of turn) ([]journal.Row, error) {
	waiting, err := t.choose(ctx, tx, found, of, found.waiting(of))
	if err == nil && len(waiting) < of.room {
		err = t.reportOdd(ctx, tx, of.target)
	}
	if err != nil || !found.ordered() {
		return rowsOf(waiting), err
	}
	var due []line
	for _, choice := range found.due(of) {
		more, err := t.choose(ctx, tx, found, of, choice)
		if err != nil {
			return nil, err
		}
		due = append(due, more...)
	}
	return inTurn(waiting, due, of.room, of.sweep), nil
}

// choose reads the rows of one choice.
func (t *Table) choose(ctx context.Context, tx *sql.Tx, found *layout, of turn, c choice) ([]line, error) {
	query, args := c.query(t.config.Table)
	lines, err := t.lines(ctx, tx, found, nil, query, args...)
	for i := range lines {
		lines[i].Target = of.target // the column's collation may have matched another spelling
	}
	return lines, err
}

// NextDue implements store.Table. It reads one entry of an index for each target, beside those of
// the rows that are left out.
func (t *Table) NextDue(ctx context.Context, targets []string, except []int64) (due journal.Due, err error) {
	found, err := t.examined(ctx)
	if err != nil || !found.uses.Delays() {
		return due, err
	}
	query := "SELECT " + found.number(store.ColumnRunAt, noTime) + " FROM " + quote(t.config.Table) + by(found.byDue) +
		" WHERE status = 'delayed' AND target = ? AND " + anID + " AND id NOT IN (" + rule.List(except) + ") ORDER BY run_at LIMIT 1"
	due = journal.Due{Now: time.Now(), Next: map[string]int64{}}
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		var at int64
		switch err := t.db.QueryRowContext(ctx, query, target).Scan(&at); {
		case err == nil:
			due.Next[target] = at
		case !errors.Is(err, sql.ErrNoRows):
			return journal.Due{}, t.fail("look for the next delayed jobs", err)
		}
	}
	return due, nil
}

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
