package mysql

import "strings"

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
