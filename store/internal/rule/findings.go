package rule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"jobd/store"
)

// Misfit is an error of the table itself, which somebody has to change.
type Misfit struct{ Text string }

// Error implements error.
func (m Misfit) Error() string { return m.Text }

// Findings is what is wrong with a table.
type Findings struct {
	Table string // what it is about, as in: table `site`.`jobs`
	List  []store.Finding
	Bare  []store.Finding // indexes without which nothing is claimed
}

// Fault notes what keeps the table from being used.
func (f *Findings) Fault(remedy, format string, args ...any) {
	f.note(store.Fault, f.Table, fmt.Sprintf(format, args...), remedy)
}

// Warn notes what somebody ought to know.
func (f *Findings) Warn(remedy, format string, args ...any) {
	f.note(store.Warning, f.Table, fmt.Sprintf(format, args...), remedy)
}

func (f *Findings) note(severity store.Severity, where, what, remedy string) {
	f.List = append(f.List, store.Finding{Severity: severity, Where: where, What: what, Remedy: remedy})
}

// Unserved notes targets that can't be served, by name: why, and behind a semicolon what mends it.
func (f *Findings) Unserved(unfit map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		why, remedy, _ := strings.Cut(unfit[name], "; ")
		f.note(store.Fault, "target "+strconv.Quote(name), "it can't be served: "+why, remedy)
	}
}

// IsFaulty tells whether a fault was found.
func (f *Findings) IsFaulty() bool {
	return slices.ContainsFunc(f.List, func(one store.Finding) bool { return one.Severity == store.Fault })
}

// Err is all faults as a Misfit; nil where there is none.
func (f *Findings) Err() error {
	var faults []string
	for _, one := range f.List {
		if one.Severity == store.Fault {
			faults = append(faults, one.Advice())
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return Misfit{strings.Join(faults, "; and ")}
}

// All are the findings, faults first.
func (f *Findings) All() []store.Finding {
	list := append(f.List, f.Bare...)
	slices.SortStableFunc(list, func(a, b store.Finding) int { return int(b.Severity) - int(a.Severity) })
	return list
}

// bare notes an index that claims need.
func (f *Findings) bare(what, remedy string) {
	f.Bare = append(f.Bare, store.Finding{Severity: store.Fault, Where: f.Table, What: what, Remedy: remedy})
}

// NotClaimed is why nothing can be claimed, though the table can be used otherwise; "": it can.
func (f *Findings) NotClaimed() string {
	words := make([]string, len(f.Bare))
	for i, one := range f.Bare {
		words[i] = one.Advice()
	}
	return strings.Join(words, "; and ")
}
