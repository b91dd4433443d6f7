package host

import "strings"

// How much is told of what a process writes while it has no job. What is wrong may stand first, as
// with PHP, or last, as with Python, below the list of calls.
const (
	mostHead = 200
	mostTail = 400
)

// excerpt is the beginning and the end of a text.
type excerpt struct {
	head, tail []byte
	cut        bool // there was something between them
}

// add takes up what follows.
func (e *excerpt) add(more []byte) {
	n := min(len(more), mostHead-len(e.head))
	e.head = append(e.head, more[:n]...)
	more = more[n:]
	if over := len(e.tail) + len(more) - mostTail; over > 0 {
		e.cut = true
		gone := min(over, len(e.tail))
		e.tail, more = append(e.tail[:0], e.tail[gone:]...), more[over-gone:]
	}
	e.tail = append(e.tail, more...)
}

// String is the text, without the end of its last line.
func (e *excerpt) String() string {
	between := ""
	if e.cut {
		between = " … "
	}
	return strings.TrimRight(strings.ToValidUTF8(string(e.head)+between+string(e.tail), "�"), "\n")
}
