package conf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// entry is what one line of a file says: a key and its value, or, without a
// key, that a section begins; or, if bad is set, nothing that makes sense.
type entry struct {
	line    int
	section string
	key     string
	value   string
	bad     string
	alone   bool     // a key without a value, or text that ends in = as the last line of something encoded does
	quoted  bool     // the key stands in quotes
	odd     []oddity // of the value as it is written
}

// mostBytes is more than anybody writes: a file that is longer is another sort of file.
const mostBytes = 16 << 20

// errTooLong is about a file that is none of configuration.
var errTooLong = fmt.Errorf("it is longer than %d MiB; allowed is a file of lines: key = value", mostBytes>>20)

// readINI calls yield for every line of r that is not empty and no comment. In these files no value
// goes on in the next line, and so every mistake has its line number. A carriage return ends a line,
// too, but is not counted as one. Only the first of lines with NUL bytes is told.
func readINI(r io.Reader, yield func(entry)) error {
	limited := &io.LimitedReader{R: r, N: mostBytes + 1}
	lines := bufio.NewReader(limited)
	section, nul := "", false
	for number := 1; ; number++ {
		text, err := lines.ReadString('\n')
		if limited.N == 0 {
			return errTooLong
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		for part := range strings.SplitSeq(text, "\r") {
			part = strings.TrimSpace(strings.TrimPrefix(part, "\ufeff"))
			if isCommentOrEmpty(part) {
				continue
			}
			e := parseLine(part, section)
			e.line, section = number, e.section
			if again := e.bad == errNUL && nul; !again {
				yield(e)
			}
			nul = nul || e.bad == errNUL
		}
		if err == io.EOF {
			return nil
		}
	}
}

const errNUL = "a NUL byte; allowed is text in UTF-8 (a file in UTF-16 must be converted, as with: iconv -f UTF-16 -t UTF-8)"

// parseLine tells what a line within section says. What is bad is told without
// the line's text: it may hold a password. A key in quotes is what stands between them. A key alone
// has the value true.
func parseLine(text, section string) (e entry) {
	e.section = section
	if strings.ContainsRune(text, 0) {
		e.bad = errNUL
		return e
	}
	if text[0] == '[' {
		name, rest, closed := cutHead(text[1:])
		if !closed || name == "" || !isCommentOrEmpty(rest) {
			e.bad = "not a section; allowed is [name] alone in a line"
			return e
		}
		e.section = name
		return e
	}
	value, isPair := "", false
	if e.quoted = text[0] == '"' || text[0] == '\''; e.quoted {
		e.key, value, e.bad = quotedName(text)
		behind := strings.TrimSpace(value)
		if value, isPair = strings.CutPrefix(behind, "="); e.bad == "" && !isPair && !isCommentOrEmpty(behind) {
			e.bad = fmt.Sprintf("text between the closing quote %c and the =; allowed is the whole name in quotes", text[0])
		}
	} else if e.key, value, isPair = strings.Cut(text, "="); isPair {
		e.key = strings.TrimSpace(e.key)
	} else {
		e.key, _ = decodeValue(text)
	}
	if e.key == "" && e.bad == "" {
		e.bad = "not understood; allowed are key = value, [section], and comments from ; or #"
	}
	if e.bad != "" {
		return entry{section: section, bad: e.bad}
	}
	if e.value = "true"; isPair {
		value = strings.TrimSpace(value)
		e.value, e.odd = decodeValue(value)
	}
	e.alone = !isPair || !e.quoted && value != "" && strings.Trim(value, "=") == ""
	return e
}

// cutHead splits the text behind a [ at its ]. A ] within the quotes of a name is none.
func cutHead(text string) (head, rest string, closed bool) {
	from := 0
	if quote := strings.IndexAny(text, `"'`); quote > 0 && strings.ContainsAny(text[quote-1:quote], " \t") &&
		len(strings.Fields(text[:quote])) == 1 && !strings.Contains(text[:quote], "]") {
		if end := closingQuote(text[quote:], text[quote]); end > 0 {
			from = quote + end
		}
	}
	at := strings.IndexByte(text[from:], ']')
	if at < 0 {
		return "", "", false
	}
	return strings.TrimSpace(text[:from+at]), text[from+at+1:], true
}

// quotedName takes the name in quotes at the beginning of a text, and what follows the quotes: with
// the escapes of JSON in double quotes, as it stands in others.
func quotedName(text string) (name, rest, bad string) {
	quote := text[0]
	end := closingQuote(text, quote)
	if end < 0 {
		return "", "", fmt.Sprintf("a quote %c is not closed; allowed is a name between two of them", quote)
	}
	name = text[1:end]
	if quote == '"' && json.Unmarshal([]byte(text[:end+1]), &name) != nil {
		return "", "", `a \ that begins no escape; in double quotes allowed are the escapes of JSON, a backslash itself is \\`
	}
	if name == "" || strings.Contains(name, "=") || strings.ContainsFunc(name, unicode.IsControl) {
		return "", "", "not a name; allowed is any text but an empty one, without = and control characters"
	}
	return name, text[end+1:], ""
}

// oddity is something about a value, as it stands in a line, that its writer has hardly meant. The
// original took such values, so they are warned about. Its text never tells the value.
type oddity struct {
	text    string
	quotes  bool // about quotes, which a command may have for itself
	secrets bool // only worth a word where the value is a password
}

// decodeValue is the value that the text after the equals sign stands for, and what is odd about it:
//
//	"a; b"  ; comment   a; b      double quotes: with the escapes of JSON
//	'a "b"' # comment   a "b"     single quotes: as it stands
//	"a" or "b"          "a" or "b"
//	a\;b ; comment      a;b       otherwise \; \# and \\ are escapes
func decodeValue(text string) (value string, odd []oddity) {
	if text == "" {
		return "", nil
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		end := closingQuote(text, quote)
		why := oddity{text: `a \ in its double quotes begins no escape, and so the quotes are part of the value; a backslash itself is \\`}
		switch {
		case end < 0:
			why.text = fmt.Sprintf("its quote %c is not closed, and so is part of the value; allowed are quotes around the whole value", quote)
		case !isCommentOrEmpty(text[end+1:]):
			why.text = fmt.Sprintf("there is text behind its closing quote %c, and so the quotes are part of the value; allowed are quotes around the whole value", quote)
			why.quotes = true
		case quote == '\'':
			return text[1:end], nil
		case json.Unmarshal([]byte(text[:end+1]), &value) == nil:
			return value, nil
		}
		odd = append(odd, why)
		if len(text) > 1 && text[len(text)-1] == quote {
			return text, odd // taken as it stands
		}
	}
	value, comment := cutComment(text)
	return value, append(odd, oddComment(text, comment)...)
}

// closingQuote is the index of the quote that ends the quotes text begins with; -1 if there is
// none.
func closingQuote(text string, quote byte) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i
		case text[i] == '\\' && quote == '"':
			i++
		}
	}
	return -1
}

func isCommentOrEmpty(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || text[0] == ';' || text[0] == '#'
}

// cutComment cuts at the first ; or # without a backslash before it, and
// resolves the backslashes before these and before another backslash. The comment begins at that
// place; -1: there is none.
func cutComment(text string) (value string, comment int) {
	var kept strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && strings.IndexByte(`;#\`, text[i+1]) >= 0:
			i++
			kept.WriteByte(text[i])
		case c == ';' || c == '#':
			return strings.TrimSpace(kept.String()), i
		default:
			kept.WriteByte(c)
		}
	}
	return strings.TrimSpace(kept.String()), -1
}

// oddComment tells whether the comment behind a value may have been meant as part of it: it follows
// without a blank, or, where the value is a password, goes on without one.
func oddComment(text string, at int) []oddity {
	if at < 0 {
		return nil
	}
	cut := oddity{text: fmt.Sprintf("it ends before its %c, with which a comment begins; allowed are quotes around the whole value, or blanks before and behind the %[1]c of a comment", text[at])}
	goesOn := at+1 < len(text) && text[at+1] != ' ' && text[at+1] != '\t' && text[at+1] != text[at]
	cut.secrets = at == 0 || text[at-1] == ' ' || text[at-1] == '\t'
	if cut.secrets && !goesOn {
		return nil
	}
	return []oddity{cut}
}
