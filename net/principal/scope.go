package principal

import (
	"errors"
	"slices"
	"strings"
	"unicode"
)

// Scope is a set of rights.
type Scope uint8

// The rights; docs/security.md says what each is for.
const (
	Status Scope = 1 << iota
	Read
	Submit
	Run
	Admin
	Worker
)

// scopes are the words of a file, each with its right and all that it gives; who gives more stands first.
var scopes = []struct {
	word       string
	right, all Scope
}{
	{"admin", Admin, Status | Read | Submit | Run | Admin},
	{"run", Run, Status | Read | Submit | Run},
	{"read", Read, Status | Read},
	{"submit", Submit, Submit},
	{"status", Status, Status},
	{"worker", Worker, Worker},
}

// ParseScope gives the rights of a word.
func ParseScope(word string) (Scope, error) {
	for _, s := range scopes {
		if s.word == word {
			return s.all, nil
		}
	}
	return 0, errors.New("not a scope; allowed: status, read, submit, run, admin and worker")
}

// Has tells whether one of the rights in need is in s.
func (s Scope) Has(need Scope) bool { return s&need != 0 }

// String is the word that gives the rights, or that a single one is named by; else such words with + between.
func (s Scope) String() string {
	var words []string
	for _, known := range scopes {
		if s.Has(known.right) {
			words = append(words, known.word)
			s &^= known.all
		}
	}
	return strings.Join(words, "+")
}

// Targets are those that a principal reaches: names, patterns that end with /*, or * alone. The zero
// value reaches none.
type Targets struct{ names []string }

// ParseTargets reads a list with commas.
func ParseTargets(text string) (Targets, error) {
	names := strings.Split(text, ",")
	odd := slices.ContainsFunc(names, func(name string) bool {
		name = strings.TrimSuffix(name, "/*")
		return name == "" || strings.ContainsFunc(name, unfit)
	})
	if odd && text != "*" {
		return Targets{}, errors.New("not a list of targets; allowed: NAME,NAME, with NAME/* for all below NAME/, and * alone for all")
	}
	return Targets{names}, nil
}

// unfit is about a rune that has a meaning in the file, that nobody sees, or that stands for what is no UTF-8.
func unfit(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("* #\ufffd", r) }

// all tells whether these are all targets.
func (t Targets) all() bool { return slices.Contains(t.names, "*") } // which stands alone

// Reach tells whether a target is among them. NAME/* reaches what goes on behind NAME/, at any depth, and
// not NAME itself.
func (t Targets) Reach(target string) bool {
	return t.all() || slices.ContainsFunc(t.names, func(name string) bool {
		stem, pattern := strings.CutSuffix(name, "*")
		rest, within := strings.CutPrefix(target, stem)
		return within && pattern == (rest != "")
	})
}

// String is the list as it stands in a file.
func (t Targets) String() string { return strings.Join(t.names, ",") }
