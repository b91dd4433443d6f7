package mysql

import (
	"cmp"
	"database/sql"
	"math/rand/v2"
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
)

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
