package mysql

import (
	sqldriver "database/sql/driver"
	"strings"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// update is the statement that applies one change.
type update struct {
	index     int // of the change among those of its Apply
	query     string
	args      []sqldriver.Value
	reduction reduction
}

// statementOverhead is more than an update takes in a packet beside its texts.
const statementOverhead = 1 << 10

// size is how many bytes the update takes in a packet.
func (u update) size() int {
	size := statementOverhead
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

// update makes the statement for a change, guarded by the claim's token.
func (l *layout) update(change store.Change, index int, less reduction) update {
	var columns []string
	var args []sqldriver.Value
	set := func(column string, value sqldriver.Value) {
		columns = append(columns, quote(column)+" = ?")
		args = append(args, value)
	}
	set("status", change.Status)
	switch {
	case rule.Release(change):
		set(l.owner.name, l.owner.empty())
		set("time_started", int64(0))
	case change.Status == journal.RowRunning:
		set("time_started", rule.Seconds(change.Start))
	default:
		l.setDone(set, change, less)
	}
	args = append(args, change.Job, change.Token)
	return update{
		index: index,
		query: "UPDATE " + l.table + " SET " + strings.Join(columns, ", ") +
			" WHERE id = ? AND status IN ('accepted','running') AND " + quote(l.owner.name) + " = ?; ",
		args:      args,
		reduction: less,
	}
}

// setDone sets the columns that say how a job ended.
func (l *layout) setDone(set func(string, sqldriver.Value), change store.Change, less reduction) {
	done := change.Done
	if !change.Start.IsZero() {
		set("time_started", rule.Seconds(change.Start))
	}
	set("time_finished", rule.Seconds(change.Finish))
	set("result", done.Result)
	set("return_code", l.code(done.Code, less))
	if l.owner.name != l.sig.name {
		set(l.owner.name, l.owner.word(l.worker))
	}
	if less&withoutSignal != 0 {
		set(l.sig.name, l.sig.empty())
	} else {
		set(l.sig.name, l.sig.word(done.Signal))
	}
	stdout, stderr := l.texts(done, less)
	set("stdout", stdout)
	set("stderr", stderr)
}

// code is a return code as the column holds it. Where there is none, and the
// column takes no NULL, it must not read as success.
func (l *layout) code(code *int, less reduction) sqldriver.Value {
	const failed, smallFailed = int64(255), int64(1)
	switch {
	case code != nil && less&withoutCode == 0:
		return int64(*code)
	case l.returnCode.nullable:
		return nil
	case less&withoutCode == 0:
		return failed
	case code != nil && *code == 0:
		return int64(0)
	default:
		return smallFailed
	}
}

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

// grows tells whether a byte takes two in a quoted string.
func grows(b byte) bool {
	switch b {
	case 0, '\n', '\r', 0x1a, '\'', '"', '\\':
		return true
	}
	return false
}

// escapedLength is how many bytes a text takes in a statement.
func escapedLength(text string) int {
	length := len(text)
	for i := range len(text) {
		if grows(text[i]) {
			length++
		}
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
		if grows(text[i]) {
			size--
		}
		if size < 0 {
			return max(i, least)
		}
	}
	return len(text)
}
