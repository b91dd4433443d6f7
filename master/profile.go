package master

import (
	"slices"
	"strings"
	"unicode"

	"jobd/net/contract"
)

// profile is what a worker registered with. It never changes; a new registration makes a new one.
type profile struct {
	name     string
	targets  []string // in the order given, each once
	instance string   // tells the worker from all others, whatever their names; "" where it did not say
	folds    bool     // its table takes names for one that differ in case or in spaces at the end

	exact  map[string]bool
	folded map[string][]int32 // by the targets' folded forms: which of targets have it
}

func newProfile(r contract.Registration) *profile {
	p := &profile{name: r.Name, targets: unique(r.Targets), instance: r.Instance, folds: r.Folds}
	p.exact = setOf(p.targets)
	p.folded = make(map[string][]int32, len(p.targets))
	for i, target := range p.targets {
		key := fold(target)
		p.folded[key] = append(p.folded[key], int32(i))
	}
	return p
}

// What a registration takes besides its texts, in bytes.
const (
	profileOverhead = 1000
	targetOverhead  = 150
)

// cost is about how many bytes of memory the profile takes.
func (p *profile) cost() int {
	bytes := profileOverhead + len(p.name) + len(p.instance)
	for _, target := range p.targets {
		bytes += targetOverhead + 2*len(target)
	}
	return bytes
}

// equal tells whether two workers registered as the same.
func (p *profile) equal(other *profile) bool {
	return p.name == other.name && p.instance == other.instance && p.folds == other.folds && slices.Equal(p.targets, other.targets)
}

// shared calls do for each folded name that the worker and the selection have in common: which of
// the worker's targets have it, and which of the selection's. Whichever has fewer names is gone
// through: a fleet that comes back is looked at for each of many pokes, and each poke for a fleet.
func (p *profile) shared(s *selection, do func(own []int32, names []string)) {
	if len(p.folded) < len(s.folded) {
		for key, own := range p.folded {
			if names := s.folded[key]; names != nil {
				do(own, names)
			}
		}
		return
	}
	for key, names := range s.folded {
		if own := p.folded[key]; own != nil {
			do(own, names)
		}
	}
}

// served gives those of its targets that are meant by the selection, in the worker's own names.
func (p *profile) served(wanted *selection) []string {
	var served []int32
	p.shared(wanted, func(own []int32, names []string) {
		served = append(served, p.meant(own, wanted, p.folds && len(p.unserved(names)) > 0)...)
	})
	return p.named(served)
}

// meant gives those of the targets that the selection has, or all of them.
func (p *profile) meant(own []int32, wanted *selection, all bool) []int32 {
	if all {
		return own
	}
	var meant []int32
	for _, i := range own {
		if wanted.exact[p.targets[i]] {
			meant = append(meant, i)
		}
	}
	return meant
}

// named are the names of some of its targets, in the order given by the worker; nil for none.
func (p *profile) named(which []int32) []string {
	if which == nil {
		return nil
	}
	slices.Sort(which)
	names := make([]string, len(which))
	for i, at := range which {
		names[i] = p.targets[at]
	}
	return names
}

// wanted gives those names of the selection that the worker takes for targets of its own.
func (p *profile) wanted(s *selection) []string {
	var wanted []string
	p.shared(s, func(_ []int32, names []string) {
		for _, name := range names {
			if p.folds || p.exact[name] {
				wanted = append(wanted, name)
			}
		}
	})
	return wanted
}

// liked gives those names of the selection that are like targets of the worker, whether its table
// takes them for one or not.
func (p *profile) liked(s *selection) []string {
	var liked []string
	p.shared(s, func(_ []int32, names []string) { liked = append(liked, names...) })
	return liked
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
