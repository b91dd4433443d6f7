package conf

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oddity is something about a value, as it stands in a line, that its writer has hardly meant. The
// original took such values, so they are warned about. Its text never tells the value.
type oddity struct {
	text    string
	quotes  bool // about quotes, which a command may have for itself
	secrets bool // only worth a word where the value is a password
}

// oddities looks at the text after the equals sign.
func oddities(text string) (found []oddity) {
	if character, seen := invisible(text); seen {
		found = append(found, oddity{text: fmt.Sprintf("it holds the invisible character %U, which counts; delete it, or write it as an escape in double quotes", character)})
	}
	if !utf8.ValidString(text) {
		found = append(found, oddity{text: "it is not valid UTF-8; save the file as UTF-8"})
	}
	if strings.ContainsAny(text[:min(len(text), utf8.UTFMax)], "“”„‘’‚«»") {
		found = append(found, oddity{text: `the typographic quote at its beginning is part of the value; allowed are " and '`})
	}
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

// invisible finds a character that nobody sees in an editor.
func invisible(text string) (character rune, seen bool) {
	for _, r := range text {
		if r != '\t' && r != utf8.RuneError && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return r, true
		}
	}
	return 0, false
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
