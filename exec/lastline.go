package exec

import (
	"bytes"
	"strings"
	"unicode"
)

// mostOfLine is how many bytes of a line the log shows.
const mostOfLine = 200

// lastLine is the last line with something in it, for a log: without control characters, and cut.
// Where there is none, it is "". However long the text is, its end alone is looked at.
func lastLine(text []byte) string {
	text = bytes.TrimRightFunc(text[max(0, len(text)-64*mostOfLine):], blank)
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	line := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsGraphic(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(text), "\ufffd"))
	if line = strings.TrimSpace(line); len(line) > mostOfLine {
		line = strings.ToValidUTF8(line[:mostOfLine-len("…")], "") + "…"
	}
	return line
}

// blank tells whether a character shows nothing.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
