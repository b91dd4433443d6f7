package mysql

import (
	"slices"
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// update is the statement that applies one change, or several that make the same of their rows, as
// those of many jobs that had nothing to say do.
type update struct {
	indexes   []int // of the changes among those of their Apply
	jobs      []int64
	set       string // the assignments
	unedited  string // a further condition; "" for none
	args      []any
	texts     int // how many bytes the arguments' texts take in a packet
	reduction reduction
}

// statementOverhead is more than an update takes in a packet beside its texts and ids, idOverhead
// than an id.
const (
	statementOverhead = 1 << 10
	idOverhead        = 24
)

// size is how many bytes the update takes in a packet.
func (u update) size() int { return statementOverhead + idOverhead*len(u.jobs) + u.texts }

// textsLength is how many bytes the texts among arguments take in a packet.
func textsLength(args []any) (length int) {
	for _, arg := range args {
		if text, ok := arg.(string); ok {
			length += escapedLength(text)
		}
	}
	return length
}

// split gives an update for each job of one.
func (u update) split() []update {
	single := make([]update, len(u.jobs))
	for i := range single {
		single[i] = u
		single[i].indexes, single[i].jobs = u.indexes[i:i+1], u.jobs[i:i+1]
	}
	return single
}

// budget is how many bytes of updates a packet can hold. The least that a server
// can be set to is too little for any update; it gets one without text.
func (l *layout) budget() int { return max(l.packet-2*statementOverhead, statementOverhead+2) }

// update makes the statement for a change, guarded by the claim's token.
func (l *layout) update(change store.Change, index int, less reduction) update {
	set, args := rule.Set(rule.Write(change, l.worker, writing{l, less}), quote)
	unedited, schedule := rule.Unedited(change, l.Uses)
	args = append(append(args, change.Token), schedule...)
	return update{
		indexes: []int{index}, jobs: []int64{change.Job},
		set: set, unedited: unedited, args: args, texts: textsLength(args), reduction: less,
	}
}

// updates makes the statements for some of the changes. One that says the same as one of the few before
// it joins that one.
func (a *application) updates(some []int) (updates []update) {
	const compared = 8
	for _, index := range some {
		next := a.layout.update(a.changes[index], index, a.reductions[index])
		from := max(0, len(updates)-compared)
		like := slices.IndexFunc(updates[from:], func(u update) bool {
			return u.set == next.set && u.unedited == next.unedited && u.reduction == next.reduction && slices.Equal(u.args, next.args)
		})
		if like < 0 {
			updates = append(updates, next)
			continue
		}
		one := &updates[from+like]
		one.indexes, one.jobs = append(one.indexes, index), append(one.jobs, next.jobs[0])
	}
	return updates
}

// query is the update's statement.
func (l *layout) query(u update) string {
	return "UPDATE " + l.Table + " SET " + u.set + " WHERE id IN (" + rule.List(u.jobs) +
		") AND " + rule.IsUnderWay + " AND " + quote(l.owner.name) + " = ?" + u.unedited + "; "
}

// writing is how a table holds what jobd writes, as far as updates are reduced. It implements
// rule.Dialect.
type writing struct {
	*layout
	less reduction
}

// Owner implements rule.Dialect.
func (w writing) Owner() string { return w.owner.name }

// Sig implements rule.Dialect.
func (w writing) Sig() string { return w.sig.name }

// Word implements rule.Dialect.
func (w writing) Word(column, text string) any {
	if column != w.sig.name {
		return w.owner.word(text)
	}
	if w.less&withoutSignal != 0 {
		text = ""
	}
	return w.sig.word(text)
}

// Code implements rule.Dialect.
func (w writing) Code(code *int) any {
	return rule.Code(code, w.returnCode.nullable, w.less&withoutCode == 0)
}

// Nothing implements rule.Dialect.
func (w writing) Nothing(name string) (value any, possible bool) {
	c := map[string]column{"result": w.result, "return_code": w.returnCode, "stdout": w.stdout, "stderr": w.stderr}[name]
	return rule.NothingIn(name, c.nullable, c.isText())
}

// Uses implements rule.Dialect.
func (w writing) Uses(column string) bool { return w.Shape.Uses.Has(column) }

// Number implements rule.Dialect.
func (w writing) Number(column string, value int64) any { return w.optional[column].fits(value) }

// Output implements rule.Dialect.
func (w writing) Output(done *journal.Done) (stdout, stderr string) { return w.texts(done, w.less) }

// texts are the job's outputs, cut so that both together fit into a packet
// (pitfall 9): each may have half of it, and what the other leaves.
func (l *layout) texts(done *journal.Done, less reduction) (stdout, stderr string) {
	render := column.text
	if less&plainText != 0 {
		render = column.reduced
	}
	budget := l.budget() - statementOverhead
	shown := done.ShownStderr()
	stdout, stderr = render(l.stdout, done.Stdout, budget), render(l.stderr, shown, budget)
	outSize, errSize := escapedLength(stdout), escapedLength(stderr)
	if outSize+errSize <= budget {
		return stdout, stderr
	}
	outShare, errShare := max(budget/2, budget-errSize), max(budget/2, budget-outSize)
	if outSize > outShare {
		stdout = render(l.stdout, done.Stdout, escapedPrefix(stdout, outShare))
	}
	if errSize > errShare {
		stderr = render(l.stderr, shown, escapedPrefix(stderr, errShare))
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

// escapedPrefix is how many bytes of a text take size bytes in a statement,
// with room for what a mark at the end adds.
func escapedPrefix(text string, size int) int {
	const newlinesOfMark = 2
	size -= newlinesOfMark
	const least = 1 // 0 would mean without limit
	for i := range len(text) {
		size--
		if strings.IndexByte(growing, text[i]) >= 0 {
			size--
		}
		if size < 0 {
			return max(i, least)
		}
	}
	return len(text)
}

// reduction is what an update goes without after the server refused it.
type reduction int

// The parts of an update that can be reduced.
const (
	plainText     reduction = 1 << iota // the outputs in ASCII, and cut
	withoutCode                         // no return code
	withoutSignal                       // no signal's name

	whole      reduction = 0
	everything           = plainText | withoutCode | withoutSignal
)

// after is the next thing to try when the server refused this one with an error
// of the given number: without the part that the error is about, or without all of them.
func (r reduction) after(number uint16) reduction {
	about := plainText
	switch number {
	case errOutOfRange:
		about = withoutCode
	case errTruncated:
		about = withoutSignal
	}
	if r&about != 0 {
		return everything
	}
	return r | about
}

// note says what was reduced; "" where nothing was.
func (r reduction) note() string {
	var notes []string
	if r&plainText != 0 {
		notes = append(notes, "output reduced to ASCII and cut")
	}
	if r&withoutCode != 0 {
		notes = append(notes, "return code left out")
	}
	if r&withoutSignal != 0 {
		notes = append(notes, "signal left out")
	}
	return strings.Join(notes, ", ")
}
