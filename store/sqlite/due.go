package sqlite

import (
	"context"
	"database/sql"
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
	target string
	room   int
	except []int64
}

// choice is one statement that chooses rows.
type choice struct {
	index, condition, order string
	limit                   int
	args                    []any
}

// query is what stands behind the columns that are read.
func (c choice) query() (text string, args []any) {
	return by(c.index) + " WHERE " + c.condition + " ORDER BY " + c.order + " LIMIT ?", append(c.args, c.limit)
}

// waiting chooses those that wait.
func (l *layout) waiting(of turn) choice {
	c := choice{
		condition: "status = 'waiting' AND target = ? AND " + anID + " AND id NOT IN (" + rule.List(of.except) + ")",
		order:     "id", limit: of.room, args: []any{of.target},
	}
	if l.Uses.Ordered() {
		c.index = l.ByID
	}
	if l.Uses.Has(store.ColumnPriority) {
		c.index, c.order = l.ByPriority, "priority DESC, id"
	}
	return c
}

// due chooses those that are due, and those whose time is a mistake; none where the table has no
// such rows.
func (l *layout) due(of turn) []choice {
	if !l.Uses.Delays() {
		return nil
	}
	rest := " AND id NOT IN (" + rule.List(of.except) + ")"
	c := choice{index: l.ByDue, condition: isDue + rest, order: "run_at", limit: of.room, args: []any{of.target, now()}}
	if l.Uses.Has(store.ColumnPriority) {
		c.limit = max(of.room, dueWindow)
	}
	far := choice{index: l.ByDue, condition: isFar + rest, order: "run_at", limit: of.room, args: []any{of.target}}
	return []choice{c, far}
}

// claimable reads the rows of one target that a claim takes.
func (t *Table) claimable(ctx context.Context, tx *sql.Tx, found *layout, of turn) ([]journal.Row, error) {
	waiting, err := t.choose(ctx, tx, found, of, found.waiting(of))
	if err != nil || !found.Uses.Ordered() {
		return rule.Rows(waiting), err
	}
	var due []rule.Line
	for _, choice := range found.due(of) {
		more, err := t.choose(ctx, tx, found, of, choice)
		if err != nil {
			return nil, err
		}
		due = append(due, more...)
	}
	return rule.Rows(rule.InOrder(append(waiting, due...), of.room)), nil
}

// choose reads the rows of one choice.
func (t *Table) choose(ctx context.Context, tx *sql.Tx, found *layout, of turn, c choice) ([]rule.Line, error) {
	query, args := c.query()
	lines, err := t.lines(ctx, tx, found, nil, query, args...)
	for i := range lines {
		lines[i].Target = of.target // the column's collation may have matched another spelling
	}
	return lines, err
}

// by has a statement use an index, where it is known.
func by(index string) string {
	if index == "" {
		return ""
	}
	return " INDEXED BY " + quote(index)
}
