package conf

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"gopkg.in/ini.v1"
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

// guard stands before every value that package ini gets to see, and keeps it
// from taking a quote at the beginning for one that ends some lines below.
const guard = "\x00"

// loadOptions leave values as they stand: they are decoded by decodeValue.
func loadOptions() ini.LoadOptions {
	return ini.LoadOptions{
		AllowBooleanKeys:        true,
		IgnoreContinuation:      true,
		IgnoreInlineComment:     true,
		PreserveSurroundedQuote: true,
		KeyValueDelimiters:      "=",
		ChildSectionDelimiter:   guard,
	}
}

// mostBytes is more than anybody writes: a file that is longer is another sort of file.
const mostBytes = 16 << 20

// readINI calls yield for every line of r that is not empty and no comment. Lines are given to
// package ini one by one: in these files no value goes on in the next line, and so every mistake
// has its line number. A carriage return ends a line, too, but is not counted as one.
func readINI(r io.Reader, yield func(entry) error) error {
	limited := &io.LimitedReader{R: r, N: mostBytes + 1}
	lines := bufio.NewReader(limited)
	section := ""
	for number := 1; ; number++ {
		text, err := lines.ReadString('\n')
		if limited.N == 0 {
			return errTooLong
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		for part := range strings.SplitSeq(text, "\r") {
			e, something := parseLine(part, section)
			if !something {
				continue
			}
			e.line, section = number, e.section
			if err := yield(e); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// errTooLong is about a file that is none of configuration.
var errTooLong = fmt.Errorf("it is longer than %d MiB; allowed is a file of lines: key = value", mostBytes>>20)

// parseLine tells what a line within section says. What is bad is told without
// the line's text: it may hold a password.
func parseLine(text, section string) (e entry, something bool) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if text == "" || text[0] == ';' || text[0] == '#' {
		return entry{}, false
	}
	e.section = section
	if strings.ContainsRune(text, 0) {
		e.bad = "a NUL byte; allowed is text in UTF-8 (a file in UTF-16 must be converted, as with: iconv -f UTF-16 -t UTF-8)"
		return e, true
	}
	if text[0] == '[' {
		name, rest, closed := cutHead(text[1:])
		if !closed || name == "" || !isCommentOrEmpty(rest) {
			e.bad = "not a section; allowed is [name] alone in a line"
			return e, true
		}
		e.section = name
		return e, true
	}
	if text[0] == '"' || text[0] == '\'' {
		e.quotedPair(text)
		return e, true
	}
	key, value, ok := loadPair(text)
	if !ok {
		e.bad = "not understood; allowed are key = value, [section], and comments from ; or #"
		return e, true
	}
	e.key, e.alone = key, !strings.Contains(text, "=") || value != "" && strings.Trim(value, "=") == ""
	e.setValue(value)
	return e, true
}

// setValue decodes the value, and looks for what is odd about it.
func (e *entry) setValue(text string) { e.value, e.odd = decodeValue(text), oddities(text) }

// quotedPair splits a line that begins with a key in quotes, which is what stands between them:
// with the escapes of JSON in double quotes, as it stands in others. A key alone has the value
// true.
func (e *entry) quotedPair(text string) {
	key, rest, bad := quotedName(text)
	rest = strings.TrimSpace(rest)
	after, isPair := strings.CutPrefix(rest, "=")
	if bad == "" && !isPair && !isCommentOrEmpty(rest) {
		bad = fmt.Sprintf("text between the closing quote %c and the =; allowed is the whole name in quotes", text[0])
	}
	if bad != "" {
		e.bad = bad
		return
	}
	e.key, e.quoted, e.alone, e.value = key, true, !isPair, "true"
	if isPair {
		e.setValue(strings.TrimSpace(after))
	}
}

// quotedName takes the name in quotes at the beginning of a text, and what follows the quotes.
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

// loadPair splits a line into its key and its undecoded value; a key alone has
// the value true.
func loadPair(text string) (key, value string, ok bool) {
	if text[0] == '`' { // a backquote is part of the name, as in the original; package ini takes it for a quote
		key, value, isPair := strings.Cut(text, "=")
		if !isPair {
			return decodeValue(text), "true", true
		}
		return strings.TrimSpace(key), strings.TrimSpace(value), true
	}
	if !strings.Contains(text, "=") {
		text = decodeValue(text)
	}
	file, err := ini.LoadSources(loadOptions(), []byte(strings.Replace(text, "=", "="+guard, 1)))
	if err != nil {
		return "", "", false
	}
	keys := file.Section("").Keys()
	if len(keys) != 1 || keys[0].Name() == "" || strings.ContainsAny(keys[0].Name(), "="+guard) {
		return "", "", false
	}
	return keys[0].Name(), strings.TrimSpace(strings.TrimPrefix(keys[0].Value(), guard)), true
}

// decodeValue is the value that the text after the equals sign stands for:
//
//	"a; b"  ; comment   a; b      double quotes: with the escapes of JSON
//	'a "b"' # comment   a "b"     single quotes: as it stands
//	"a" or "b"          "a" or "b"
//	a\;b ; comment      a;b       otherwise \; \# and \\ are escapes
func decodeValue(text string) string {
	if text == "" {
		return ""
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		if value, ok := unquote(text, quote); ok {
			return value
		}
		if len(text) > 1 && text[len(text)-1] == quote {
			return text
		}
	}
	return cutComment(text)
}

// unquote decodes a text that is in quotes, with nothing but a comment after them.
func unquote(text string, quote byte) (string, bool) {
	end := closingQuote(text, quote)
	if end < 0 || !isCommentOrEmpty(text[end+1:]) {
		return "", false
	}
	if quote == '\'' {
		return text[1:end], true
	}
	var value string
	decoder := json.NewDecoder(bytes.NewReader([]byte(text[:end+1])))
	if err := decoder.Decode(&value); err != nil {
		return "", false
	}
	return value, true
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
// resolves the backslashes before these and before another backslash.
func cutComment(text string) string {
	var value strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && strings.IndexByte(`;#\`, text[i+1]) >= 0:
			i++
			value.WriteByte(text[i])
		case c == ';' || c == '#':
			return strings.TrimSpace(value.String())
		default:
			value.WriteByte(c)
		}
	}
	return strings.TrimSpace(value.String())
}

// oddity is something about a value, as it stands in a line, that its writer has hardly meant. The
// original took such values, so they are warned about. Its text never tells the value.
type oddity struct {
	text    string
	quotes  bool // about quotes, which a command may have for itself
	secrets bool // only worth a word where the value is a password
}

// oddities looks at the text after the equals sign.
func oddities(text string) (found []oddity) {
	if text == "" {
		return found
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		if _, ok := unquote(text, quote); ok {
			return found
		}
		found = append(found, oddQuotes(text, quote))
		if len(text) > 1 && text[len(text)-1] == quote {
			return found // taken as it stands
		}
	}
	return append(found, oddComment(text)...)
}

// oddQuotes tells why the quotes at a value's beginning don't count as such.
func oddQuotes(text string, quote byte) oddity {
	end := closingQuote(text, quote)
	switch {
	case end < 0:
		return oddity{text: fmt.Sprintf("its quote %c is not closed, and so is part of the value; allowed are quotes around the whole value", quote)}
	case !isCommentOrEmpty(text[end+1:]):
		return oddity{quotes: true, text: fmt.Sprintf("there is text behind its closing quote %c, and so the quotes are part of the value; allowed are quotes around the whole value", quote)}
	}
	return oddity{text: `a \ in its double quotes begins no escape, and so the quotes are part of the value; a backslash itself is \\`}
}

// oddComment tells whether the comment behind a value may have been meant as part of it: it follows
// without a blank, or, where the value is a password, goes on without one.
func oddComment(text string) []oddity {
	at := commentStart(text)
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

// commentStart is where the comment in an unquoted text begins; -1: there is none.
func commentStart(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ';', '#':
			return i
		case '\\':
			if i+1 < len(text) && strings.IndexByte(`;#\`, text[i+1]) >= 0 {
				i++
			}
		}
	}
	return -1
}
