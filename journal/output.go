package journal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Output is what was kept of one output stream of a job. The kept bytes are
// the stream's beginning, exactly as the job wrote them.
type Output struct {
	Kept []byte `json:"-"`    // at most max_output_buffer bytes; the journal stores them beside the payload
	Size int64  `json:"size"` // how many bytes the job wrote in all
}

// LastLine is the last line of what was kept that is not blank, without the space around it; nil
// where there is none. A carriage return ends a line, too: of a progress that was written over and
// over, the last state counts.
func (o Output) LastLine() []byte {
	text := bytes.TrimRightFunc(o.Kept, blank)
	return bytes.TrimLeftFunc(text[bytes.LastIndexAny(text, "\r\n")+1:], unicode.IsSpace)
}

// blank tells whether a character shows nothing.
func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// truncated reports whether the job wrote more than was kept.
func (o Output) truncated() bool { return o.Size > int64(len(o.Kept)) }

// Charset tells which characters a column can hold.
type Charset int

// The character sets that matter: one that holds all of Unicode, and the
// three-byte utf8 of MySQL, which ends at U+FFFF.
const (
	CharsetFull Charset = iota
	CharsetThreeByte
)

// Text is the stream as text of at most limit bytes (0: no limit): what is not
// UTF-8, or not in the charset, becomes U+FFFD; where bytes are missing, because the
// job wrote more than was kept or because limit cuts, the text ends in a mark
// that says so. A limit too small for the mark gives the text cut, unmarked.
func (o Output) Text(limit int, charset Charset) string {
	text := o.valid(charset)
	if !o.truncated() && (limit <= 0 || len(text) <= limit) {
		return text
	}
	mark := fmt.Sprintf("\n[jobd: output cut, %d bytes in all]\n", o.Size)
	if limit <= 0 {
		return text + mark
	}
	if len(mark) > limit {
		return cut(text, limit)
	}
	return cut(text, limit-len(mark)) + mark
}

// valid is the kept bytes as text that the charset can hold.
func (o Output) valid(charset Charset) string {
	kept := o.Kept
	if o.truncated() {
		kept = trimPartialRune(kept)
	}
	text := string(kept)
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if charset == CharsetFull {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r > 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, text)
}

// trimPartialRune drops a character at the end that the limit cut in half.
func trimPartialRune(b []byte) []byte {
	for at := len(b) - 1; at >= 0 && at >= len(b)-utf8.UTFMax; at-- {
		if utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}
			break
		}
	}
	return b
}

// cut is the longest beginning of text that is at most limit bytes long and
// does not end inside a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
