package conf

import (
	"encoding/json"
	"fmt"
	"iter"
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
	alone   bool // a key without a value, or text that ends in = as the last line of something encoded does
	quoted  bool // the key stands in quotes

	// odd is what the writer of the value has hardly meant. The original took such values, so they are
	// warned about. It never tells the value.
	odd        string
	mayBeMeant bool // in a command, which has quotes for itself
	ofSecrets  bool // only worth a word where the value is a password
}

// entries are all lines that are not empty and no comment. In these files no value
// goes on in the next line, and so every mistake has its line number. A carriage return ends a line,
// too, but is not counted as one. Only the first of lines with NUL bytes is told.
func entries(text string) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		section, nul, number := "", false, 0
		for line := range strings.SplitSeq(text, "\n") {
			number++
			for part := range strings.SplitSeq(line, "\r") {
				part = strings.TrimSpace(strings.TrimPrefix(part, "\ufeff"))
				if isCommentOrEmpty(part) {
					continue
				}
				e := parseLine(part, section)
				e.line, section = number, e.section
				if again := e.bad == errNUL && nul; !again && !yield(e) {
					return
				}
				nul = nul || e.bad == errNUL
			}
		}
	}
}

const errNUL = "a NUL byte; allowed: text in UTF-8 (a file in UTF-16 must be converted, as with: iconv -f UTF-16 -t UTF-8)"

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
			e.bad = "not a section; allowed: [name] alone in a line"
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
			e.bad = fmt.Sprintf("text between the closing quote %c and the =; allowed: the whole name in quotes", text[0])
		}
	} else if e.key, value, isPair = strings.Cut(text, "="); isPair {
		e.key = strings.TrimSpace(e.key)
	} else {
		e.key = new(entry).decoded(text)
	}
	if e.key == "" && e.bad == "" {
		e.bad = "not understood; allowed: key = value, [section], and comments from ; or #"
	}
	if e.bad != "" {
		return entry{section: section, bad: e.bad}
	}
	if e.value = "true"; isPair {
		value = strings.TrimSpace(value)
		e.value = e.decoded(value)
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
		return "", "", fmt.Sprintf("a quote %c is not closed; allowed: a name between two of them", quote)
	}
	name = text[1:end]
	if quote == '"' && json.Unmarshal([]byte(text[:end+1]), &name) != nil {
		return "", "", `a \ that begins no escape; in double quotes allowed: the escapes of JSON, a backslash itself is \\`
	}
	if name == "" || strings.Contains(name, "=") || strings.ContainsFunc(name, unicode.IsControl) {
		return "", "", "not a name; allowed: any text but an empty one, without = and control characters"
	}
	return name, text[end+1:], ""
}

// decoded is the value that the text after the equals sign stands for. What is odd about it is noted:
//
//	"a; b"  ; comment   a; b      double quotes: with the escapes of JSON
//	'a "b"' # comment   a "b"     single quotes: as it stands
//	"a" or "b"          "a" or "b"
//	a\;b ; comment      a;b       otherwise \; \# and \\ are escapes
func (e *entry) decoded(text string) (value string) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		quote, end := text[0], closingQuote(text, text[0])
		alone := end > 0 && isCommentOrEmpty(text[end+1:])
		switch {
		case alone && quote == '\'':
			return text[1:end]
		case alone && json.Unmarshal([]byte(text[:end+1]), &value) == nil:
			return value
		}
		e.odd = fmt.Sprintf("its %c is part of the value; allowed: quotes around the whole value, and in double quotes the escapes of JSON", quote)
		if e.mayBeMeant = end > 0 && !alone; len(text) > 1 && text[len(text)-1] == quote {
			return text // taken as it stands
		}
	}
	value, comment := cutComment(text)
	if odd, ofSecrets := oddComment(text, comment); odd != "" && (e.odd == "" || e.mayBeMeant) {
		e.odd, e.ofSecrets, e.mayBeMeant = odd, ofSecrets, false
	}
	return value
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
func oddComment(text string, at int) (odd string, ofSecrets bool) {
	if at < 0 {
		return "", false
	}
	goesOn := at+1 < len(text) && text[at+1] != ' ' && text[at+1] != '\t' && text[at+1] != text[at]
	ofSecrets = at == 0 || text[at-1] == ' ' || text[at-1] == '\t'
	if ofSecrets && !goesOn {
		return "", false
	}
	return fmt.Sprintf("it is cut at its %c, which begins a comment; allowed: quotes around the whole value, or blanks before and behind the %[1]c of a comment", text[at]), ofSecrets
}
