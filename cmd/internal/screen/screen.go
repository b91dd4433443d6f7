// Package screen is the last step before a terminal: it makes texts of others visible, and keeps
// them from steering the terminal. Lengths of time are written as people read them.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"
)

// longestLine is how many characters of a line a terminal is shown: fifty screens or so. The rest
// is counted. Into a pipe or a file everything goes.
const longestLine = 1 << 16

// Screen is a terminal as a writer. Whatever jobs, peers, files and arguments say passes through
// it, and what a terminal would obey or hide is written out instead: control characters but the
// line's end and the tab, C1, bidirectional overrides, characters without width, bytes that are no
// UTF-8. Only what stands between two of the program's own marks goes through as it is. Its methods
// are safe for concurrent use.
type Screen struct {
	to   io.Writer
	mark string

	mu     sync.Mutex
	begun  []byte // of a character that ends in the next write
	shown  int    // characters of the line
	hidden int    // those of it beyond longestLine
}

// New makes a screen of a writer. The mark must be such that nobody else can know it.
func New(to io.Writer, mark string) *Screen { return &Screen{to: to, mark: mark} }

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.begun, p...)
	s.begun = nil
	var out []byte
	for len(text) > 0 {
		if own, rest, found := s.own(text); found {
			if text, out = rest, append(out, own...); bytes.HasPrefix(own, []byte("\r")) {
				s.shown, s.hidden = 0, 0
			}
			continue
		}
		if !utf8.FullRune(text) {
			s.begun = bytes.Clone(text)
			break
		}
		_, size := utf8.DecodeRune(text)
		out, text = s.show(out, text[:size]), text[size:]
	}
	if _, err := s.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// own cuts what stands between two marks off text that begins with one.
func (s *Screen) own(text []byte) (own, rest []byte, found bool) {
	if text, found = bytes.CutPrefix(text, []byte(s.mark)); !found {
		return nil, nil, false
	}
	return bytes.Cut(text, []byte(s.mark))
}

// show appends one character as it is shown.
func (s *Screen) show(out, char []byte) []byte {
	if char[0] == '\n' {
		out = s.endLine(out)
		return append(out, '\n')
	}
	if s.shown++; s.shown > longestLine {
		s.hidden++
		return out
	}
	if char[0] == '\t' {
		return append(out, '\t')
	}
	return appendVisible(out, char)
}

// endLine says how much of the line was not shown.
func (s *Screen) endLine(out []byte) []byte {
	if s.hidden > 0 {
		out = fmt.Appendf(out, " … and %s more characters in this line", humanize.Comma(int64(s.hidden)))
	}
	s.shown, s.hidden = 0, 0
	return out
}

// Flush shows what was begun and not ended.
func (s *Screen) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []byte
	for i := range s.begun {
		out = s.show(out, s.begun[i:i+1])
	}
	s.begun = nil
	out = s.endLine(out)
	if len(out) > 0 {
		_, _ = s.to.Write(out) // what it writes to remembers
	}
}

// appendVisible appends one character, or one byte that belongs to none, in such a form that it is
// seen and does nothing. Beyond ASCII that is JSON's own escape: JSON on a terminal stays JSON.
func appendVisible(out, char []byte) []byte {
	r, size := utf8.DecodeRune(char)
	switch {
	case r == utf8.RuneError && size < 2:
		return fmt.Appendf(out, `\x%02x`, char[0])
	case !Invisible(r):
		return append(out, char...)
	case r == '\n':
		return append(out, `\n`...)
	case r == '\r':
		return append(out, `\r`...)
	case r == '\t':
		return append(out, `\t`...)
	case r < ' ':
		return fmt.Appendf(out, `\x%02x`, r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// unseen are the characters that take no room, or look like none, beside those of the categories
// control, format and separator: selectors of variants, fillers, joiners.
var unseen = []*unicode.RangeTable{
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point,
}

// Invisible tells whether a character would steer a terminal, or not be seen.
func Invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unseen...)
}

// Clean is text in one line, as tables and messages have it wherever they go: cells are as wide as
// they look, and a line is a line.
func Clean(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, Invisible) < 0 {
		return text
	}
	var out []byte
	for rest := []byte(text); len(rest) > 0; {
		_, size := utf8.DecodeRune(rest)
		out, rest = appendVisible(out, rest[:size]), rest[size:]
	}
	return string(out)
}

// InALine is a text of several lines as Clean has it, in one: they are told apart by slashes, without
// indents, and those with nothing in them are left out.
func InALine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return Clean(strings.Join(lines, " / "))
}

// widths are how wide terminals show characters, wherever a program runs: no variable of the
// environment has a say. Joiners and selectors, which would change it, are written out before.
var widths = &runewidth.Condition{StrictEmojiNeutral: true}

// Width is how many columns of a terminal a text takes.
func Width(text string) (width int) {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			for _, r := range text {
				width += widths.RuneWidth(r)
			}
			return width
		}
	}
	return len(text)
}

// Cut is the beginning of a text, with a … behind it, so that it takes no more than width columns.
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken += widths.RuneWidth(r); taken > width-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// Narrow takes columns of a table that is too wide from those that may be cut, always from the widest of
// them, so that none is cut while a wider one is whole; least is what a column keeps, -1 of one that is
// not cut.
func Narrow(widths []int, over int, least func(column int) int) {
	for ; over > 0; over-- {
		widest := -1
		for i, width := range widths {
			if keeps := least(i); keeps >= 0 && width > keeps && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// Length is a length of time as people read it, in its two largest units: 5s, 2m3s, 1h2m, 3d4h.
func Length(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	d = max(0, d).Round(time.Second)
	for i, unit := range units[:3] {
		if n := d / unit.size; n > 0 {
			next := units[i+1]
			return fmt.Sprintf("%d%s%d%s", n, unit.name, d%unit.size/next.size, next.name)
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// ShortLength is Length, but of what is shorter than ten seconds to the hundredth: of processor
// time most is.
func ShortLength(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2fs", max(0, d).Seconds())
	}
	return Length(d)
}

// Count is a number of things: 1 job, 2,935 jobs.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return humanize.Comma(int64(n)) + " " + thing + "s"
}
