package rule

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"jobd/journal"
)

// Line is a row with what decides about its turn.
type Line struct {
	journal.Row
	priority int64
}

// Rows are the rows of lines.
func Rows(lines []Line) []journal.Row {
	rows := make([]journal.Row, len(lines))
	for i, one := range lines {
		rows[i] = one.Row
	}
	return rows
}

// InOrder sorts what was found of one target, and gives the first ones: higher priority first, then
// what is earlier. What waits does so since it was created, what is due since then; where nobody
// knows when a waiting row was created, it is left to chance: neither holds up the other for ever.
func InOrder(found []Line, room int) []Line {
	var waiting, due []Line
	for _, one := range found {
		if one.Status == journal.RowDelayed {
			due = append(due, one)
		} else {
			waiting = append(waiting, one)
		}
	}
	slices.SortFunc(waiting, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Job, b.Job))
	})
	slices.SortFunc(due, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Plan.RunAt, b.Plan.RunAt), cmp.Compare(a.Job, b.Job))
	})
	first := make([]Line, 0, min(room, len(found)))
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
func goesFirst(due, waiting Line) bool {
	if due.priority != waiting.priority {
		return due.priority > waiting.priority
	}
	if waiting.Created == 0 {
		return rand.IntN(2) == 0
	}
	return due.Plan.RunAt < waiting.Created
}
