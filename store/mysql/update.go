package mysql

import (
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store/internal/rule"
)

// update is the statement that applies one change, or several that make the same of their rows, as
// those of many jobs that had nothing to say do.
type update struct {
	indexes    []int // of the changes among those of their Apply
	jobs       []int64
	set, guard string // before the ids of the jobs, and behind them
	args       []any
}

// statementOverhead is more than an update takes in a packet beside its texts and ids, idOverhead
// than an id.
const (
	statementOverhead = 1 << 10
	idOverhead        = 24
)

// size is how many bytes the update takes in a packet.
func (u update) size() int {
	size := statementOverhead + idOverhead*len(u.jobs)
	for _, arg := range u.args {
		if text, ok := arg.(string); ok {
			size += escapedLength(text)
		}
	}
	return size
}

// budget is how many bytes of updates a packet can hold. The least that a server
// can be set to is too little for any update; it gets one without text.
func (l *layout) budget() int { return max(l.packet-2*statementOverhead, statementOverhead+2) }

// updates makes the statements for some of the changes. One that says the same as one of the few before
// it joins that one.
func (a *application) updates(some []int) (updates []update) {
	const compared = 8
	for _, index := range some {
		change := a.Changes[index]
		set, guard, args, more := a.layout.Update(change, a.Reduced[index])
		args = append(args, more...)
		from := max(0, len(updates)-compared)
		like := slices.IndexFunc(updates[from:], func(u update) bool {
			return u.set == set && u.guard == guard && slices.Equal(u.args, args)
		})
		if like < 0 {
			updates = append(updates, update{[]int{index}, []int64{change.Job}, set, guard, args})
			continue
		}
		one := &updates[from+like]
		one.indexes, one.jobs = append(one.indexes, index), append(one.jobs, change.Job)
	}
	return updates
}

// statement is the update as it is sent.
func (u update) statement() rule.Statement {
	return rule.Statement{Query: u.set + rule.List(u.jobs) + u.guard, Args: u.args}
}

// output is a job's outputs, cut so that both together fit into a packet
// (pitfall 9): each may have half of it, and what the other leaves.
func (l *layout) output(done *journal.Done, reduced bool) (stdout, stderr string) {
	budget := l.budget() - statementOverhead
	render := func(name string, output journal.Output, most int) (text string, size int) {
		for limit := most; ; limit = limit / 4 * 3 {
			text = l.columns[name].text(output, max(limit, 1), reduced)
			if size = escapedLength(text); size <= most || limit <= 1 {
				return text, size
			}
		}
	}
	stdout, outSize := render("stdout", done.Stdout, budget)
	stderr, errSize := render("stderr", done.ShownStderr(), budget)
	if outSize+errSize > budget {
		stdout, _ = render("stdout", done.Stdout, max(budget/2, budget-errSize))
		stderr, _ = render("stderr", done.ShownStderr(), max(budget/2, budget-outSize))
	}
	return stdout, stderr
}

// growing are the bytes that take two in a quoted string.
const growing = "\x00\n\r\x1a'\"\\"

// escapedLength is how many bytes a text takes in a statement.
func escapedLength(text string) int {
	length := len(text)
	for i := range len(growing) {
		length += strings.Count(text, growing[i:i+1])
	}
	return length
}
