package exec

import (
	"strings"
	"unicode"

	"jobd/journal"
)

// The log shows so many bytes of a line, and looks at so many of its first ones.
const (
	mostOfLine = 200
	mostRead   = 64 * mostOfLine
)

// lastLine is the last line with something in it, for a log: without control characters, and cut.
// Where there is none, it is "".
func lastLine(output journal.Output) string {
	text := output.LastLine()
	line := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(text[:min(len(text), mostRead)]), "\ufffd"))
	if line = strings.TrimSpace(line); len(line) > mostOfLine || len(text) > mostRead {
		line = strings.ToValidUTF8(line[:min(len(line), mostOfLine-len("…"))], "") + "…"
	}
	return line
}
