package principal

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Scope is a set of rights.
type Scope uint8

// The rights. What each is for is in docs/security.md.
const (
	Status Scope = 1 << iota
	Read
	Submit
	Run
	Admin
	Worker
)

// scopes are the words that stand in a file, each with the right that it is named after and all that it
// gives. One that holds another stands behind it.
var scopes = []struct {
	word       string
	right, all Scope
}{
	{"status", Status, Status},
	{"read", Read, Status | Read},
	{"submit", Submit, Submit},
	{"run", Run, Status | Read | Submit | Run},
	{"admin", Admin, Status | Read | Submit | Run | Admin},
	{"worker", Worker, Worker},
}

// ParseScope gives the rights of a word.
func ParseScope(word string) (Scope, error) {
	var words []string
	for _, s := range scopes {
		if s.word == word {
			return s.all, nil
		}
		words = append(words, s.word)
	}
	return 0, errors.New("not a scope; allowed are " + strings.Join(words, ", "))
}

// Has tells whether one of the rights in need is in s.
func (s Scope) Has(need Scope) bool { return s&need != 0 }

// String is the word of what a line has, or of a single right; else several words.
func (s Scope) String() string {
	for _, known := range scopes {
		if s == known.all || s == known.right {
			return known.word
		}
	}
	var words []string
	for _, whole := range []bool{true, false} {
		for i := len(scopes) - 1; i >= 0; i-- {
			part := scopes[i].right
			if whole {
				part = scopes[i].all
			}
			if s&part == part {
				words, s = append(words, scopes[i].word), s&^part
			}
		}
	}
	return strings.Join(words, "+")
}

// Targets are those that a principal reaches. The zero value reaches none.
type Targets struct {
	names []string // "*" alone: all; "reports/*": all below reports/
}

// all is the word for all targets, and the end of a pattern for those below a name.
const (
	all   = "*"
	below = "/*"
)

// ParseTargets reads a list with commas: names, and NAME/* for all targets that begin with NAME/ and go on
// (not for NAME itself). * alone is all targets. There are no other patterns.
func ParseTargets(text string) (Targets, error) {
	if text == all {
		return Targets{[]string{all}}, nil
	}
	names := strings.Split(text, ",")
	for _, name := range names {
		stem := strings.TrimSuffix(name, below)
		if stem == "" || strings.Contains(stem, all) || !utf8.ValidString(stem) || strings.ContainsFunc(stem, unprintable) {
			return Targets{}, errors.New("not a list of targets; allowed are names with commas between them, NAME/* for all targets " +
				"that begin with NAME/, and * alone for all")
		}
	}
	return Targets{names}, nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }

// All tells whether these are all targets.
func (t Targets) All() bool { return len(t.names) == 1 && t.names[0] == all }

// Reach tells whether a target is among them.
func (t Targets) Reach(target string) bool {
	for _, name := range t.names {
		stem, pattern := strings.CutSuffix(name, all)
		if name == target || pattern && strings.HasPrefix(target, stem) && (t.All() || len(target) > len(stem)) {
			return true
		}
	}
	return false
}

// String is the list as it stands in a file; "" where it is empty.
func (t Targets) String() string { return strings.Join(t.names, ",") }
