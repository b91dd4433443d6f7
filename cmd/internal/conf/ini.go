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

// readINI calls yield for every line of r that is not empty and no comment. Lines
// are given to package ini one by one: in these files no value goes on in the
// next line, and so every mistake has its line number.
func readINI(r io.Reader, yield func(entry) error) error {
	lines := bufio.NewReader(r)
	section := ""
	for number := 1; ; number++ {
		text, err := lines.ReadString('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		e, something := parseLine(text, section)
		if something {
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

// parseLine tells what a line within section says. What is bad is told without
// the line's text: it may hold a password.
func parseLine(text, section string) (e entry, something bool) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if text == "" || text[0] == ';' || text[0] == '#' {
		return entry{}, false
	}
	e.section = section
	if text[0] == '[' {
		name, rest, closed := strings.Cut(text[1:], "]")
		name = strings.TrimSpace(name)
		if !closed || name == "" || !isCommentOrEmpty(rest) {
			e.bad = "not a section; allowed is [name] alone in a line"
			return e, true
		}
		e.section = name
		return e, true
	}
	if strings.ContainsRune("\"'`", rune(text[0])) {
		e.key, e.value, e.bad = quotedPair(text)
		return e, true
	}
	key, value, ok := loadPair(text)
	if !ok {
		e.bad = "not understood; allowed are key = value, [section], and comments from ; or #"
		return e, true
	}
	e.key, e.value = key, decodeValue(value)
	return e, true
}

// quotedPair splits a line that begins with a key in quotes, which is what stands between them: with the escapes of JSON in
// double quotes, as it stands in others. A key alone has the value true.
func quotedPair(text string) (key, value, bad string) {
	quote := text[0]
	end := closingQuote(text, quote)
	if end < 0 {
		return "", "", fmt.Sprintf("a quote %c is not closed; allowed is a name between two of them", quote)
	}
	rest := strings.TrimSpace(text[end+1:])
	after, isPair := strings.CutPrefix(rest, "=")
	if !isPair && !isCommentOrEmpty(rest) {
		return "", "", fmt.Sprintf("text between the closing quote %c and the =; allowed is the whole name in quotes", quote)
	}
	key = text[1:end]
	if quote == '"' && json.Unmarshal([]byte(text[:end+1]), &key) != nil {
		return "", "", `a \ that begins no escape; in double quotes allowed are the escapes of JSON, a backslash itself is \\`
	}
	if key == "" || strings.Contains(key, "=") || strings.ContainsFunc(key, unicode.IsControl) {
		return "", "", "not a name; allowed is any text but an empty one, without = and control characters"
	}
	if !isPair {
		return key, "true", ""
	}
	return key, decodeValue(strings.TrimSpace(after)), ""
}

// loadPair splits a line into its key and its undecoded value; a key alone has
// the value true.
func loadPair(text string) (key, value string, ok bool) {
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

// closingQuote is the index of the quote that ends the quotes text begins with; -1 if there is none.
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
