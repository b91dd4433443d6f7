package master

import (
	"strings"
	"unicode"
)

// profile is what a worker registered with. It never changes; a new registration makes a new one.
type profile struct {
	name     string
	targets  []string // in the order given, each once
	instance string   // tells the worker from all others, whatever their names; "" where it did not say
	folds    bool     // its table takes names for one that differ in case or in spaces at the end

	exact  map[string]bool
	keys   []string        // the targets' folded forms
	folded map[string]bool // the same
}

func newProfile(p profile) *profile {
	p.targets = unique(p.targets)
	p.exact = setOf(p.targets)
	p.keys = make([]string, len(p.targets))
	for i, target := range p.targets {
		p.keys[i] = fold(target)
	}
	p.folded = setOf(p.keys)
	return &p
}

// poll gives what the worker is polled for when these targets were poked. A poke is a hint: it also
// goes to a worker whose target has a like name, since the table may take both for one; but only
// where the worker says that it does, is its answer enough.
func (p *profile) poll(poked *selection) poll {
	var served poll
	for i, own := range p.targets {
		if poked.exact[own] {
			served.targets = append(served.targets, own)
			continue
		}
		like := p.unserved(poked.folded[p.keys[i]])
		if len(like) == 0 {
			continue
		}
		served.targets = append(served.targets, own)
		if p.folds {
			served.likes = append(served.likes, like...)
		}
	}
	return served
}

// served gives those of its targets that are meant by the selection, in the worker's own names.
func (p *profile) served(wanted *selection) []string {
	var served []string
	for i, own := range p.targets {
		if wanted.exact[own] || p.folds && len(p.unserved(wanted.folded[p.keys[i]])) > 0 {
			served = append(served, own)
		}
	}
	return served
}

// serves tells whether the worker takes the name for one of its targets.
func (p *profile) serves(target string) bool {
	return p.exact[target] || p.folds && p.folded[fold(target)]
}

// unserved are the names that no target of the worker has exactly.
func (p *profile) unserved(names []string) []string {
	var unserved []string
	for _, name := range names {
		if !p.exact[name] {
			unserved = append(unserved, name)
		}
	}
	return unserved
}

// selection is a list of targets to look names up in.
type selection struct {
	exact  map[string]bool
	folded map[string][]string
}

func selectionOf(targets []string) *selection {
	folded := make(map[string][]string, len(targets))
	for _, target := range targets {
		key := fold(target)
		folded[key] = append(folded[key], target)
	}
	return &selection{setOf(targets), folded}
}

// fold gives names the same form that differ in case, as strings.EqualFold sees it, or in spaces at
// the end only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, strings.TrimRight(name, " "))
}
