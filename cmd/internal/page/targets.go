package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// target is a target as the page shows it.
type target struct {
	operator.Tally
	Counted bool // how many wait is known
	Waits   api.WaitingTarget
	Oldest  time.Time // zero: nobody waits, or it is not known
	NextDue time.Time // zero: none is delayed, or it is not known
	EmptyIn string
	State   string
	Tone    string // good, warn or bad
}

// targetsOf are all targets of a census, those that nobody serves among them: first those that somebody should
// look at.
func targetsOf(s *operator.Census) (all []target) {
	for _, t := range s.Tallies() {
		all = append(all, targetOf(s, t))
	}
	for _, name := range s.Unserved() {
		all = append(all, targetOf(s, operator.Tally{Target: name}))
	}
	order := []string{"bad", "warn", "good"}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(slices.Index(order, a.Tone)-slices.Index(order, b.Tone), strings.Compare(a.Target, b.Target))
	})
	return all
}

func targetOf(s *operator.Census, t operator.Tally) target {
	one := target{Tally: t, State: "works", Tone: "good"}
	one.Waits, one.Counted = s.Waiting[t.Target]
	if one.Waits.Count > 0 {
		one.Oldest = unixTime(one.Waits.Oldest, time.Second)
	}
	next, _ := s.NextDue(t.Target)
	one.NextDue = unixTime(next, time.Second)
	if in, known := t.EmptyIn(one.Waits); one.Counted && t.Untold == 0 && known && in > 0 {
		one.EmptyIn = screen.Length(in)
		if one.Waits.More || one.Waits.DueMore {
			one.EmptyIn = "> " + one.EmptyIn
		}
	}
	switch {
	case t.Workers == 0:
		one.State, one.Tone = "no worker serves it", "bad"
	case t.Paused > 0 && t.Paused == t.Workers:
		one.State, one.Tone = "paused", "warn"
	case t.Stands():
		one.State, one.Tone = "no job can start", "bad"
	case t.Paused > 0:
		one.State, one.Tone = fmt.Sprintf("paused on %d of %d", t.Paused, t.Workers), "warn"
	case t.Unable > 0:
		one.State, one.Tone = fmt.Sprintf("no job can start on %d of %d", t.Unable, t.Workers), "warn"
	case len(t.Why) > 0:
		one.State, one.Tone = "claims nothing", "warn"
	}
	return one
}

// fleet is how the daemon stands, with what waits.
type fleet struct {
	*operator.Census
	Targets []target
	Sum     operator.Tally
	Waiting int64
	Counted bool // how many wait is known, of one target at least
	More    bool // more wait than that
	Oldest  time.Time
}

// mostCounted is how far waiting rows are counted: each look reads so many entries of an index at most.
const mostCounted = 1000

// census asks how the daemon stands. Those that did not answer are noted.
func (l *look) census() (*operator.Census, error) {
	census, err := operator.TakeCensus(l.ctx, l.Daemon())
	if err == nil {
		l.note(census.Silent())
	}
	return census, err
}

// fleet asks how the daemon stands, and what waits for targets: for these, or for all where none is named.
func (l *look) fleet(targets ...string) (*fleet, error) {
	census, err := l.census()
	if err != nil {
		return nil, err
	}
	census.Most = mostCounted
	if targets == nil {
		targets = append(census.Targets(), census.Unserved()...)
	}
	census.Count(l.ctx, targets)
	l.noteAll(census.Why)
	f := &fleet{Census: census, Targets: targetsOf(census)}
	for _, t := range f.Targets {
		f.Sum.Add(t.Tally)
		f.Waiting += int64(t.Waits.Count)
		f.Counted = f.Counted || t.Counted
		f.More = f.More || t.Waits.More
		if !t.Oldest.IsZero() && (f.Oldest.IsZero() || t.Oldest.Before(f.Oldest)) {
			f.Oldest = t.Oldest
		}
	}
	return f, nil
}

// target is one of them by its name.
func (f *fleet) target(name string) (target, error) {
	for _, t := range f.Targets {
		if t.Target == name {
			return t, nil
		}
	}
	return target{}, notFound("no worker serves target %s", screen.Clean(name))
}

// targetsView is /targets.
func targetsView(l *look) (any, error) { return l.fleet() }

// serving is a worker of a target.
type serving struct {
	Name     string
	Address  string
	Status   *api.WorkerStatus
	Target   api.TargetStatus
	Executor *api.ExecutorStatus // nil: each job has a process of its own
}

// targetView is /targets/NAME.
func targetView(l *look) (any, error) {
	name := l.PathValue("name")
	f, err := l.fleet(name)
	if err != nil {
		return nil, err
	}
	found, err := f.target(name)
	if err != nil {
		return nil, err
	}
	l.title = "Target " + screen.Clean(name)
	shown := struct {
		target
		Serving []serving
		Fleet   *fleet
	}{target: found, Fleet: f}
	for _, w := range f.Census.Workers {
		if w.Err != nil {
			continue
		}
		one := serving{Name: cmp.Or(w.From.Name, w.Value.Name, l.page.Name), Address: w.From.Address, Status: w.Value}
		var serves bool
		if one.Target, serves = w.Value.Targets[name]; !serves {
			continue
		}
		if i := slices.IndexFunc(w.Value.Executors, func(e api.ExecutorStatus) bool { return e.Target == name }); i >= 0 {
			one.Executor = &w.Value.Executors[i]
		}
		shown.Serving = append(shown.Serving, one)
	}
	return shown, nil
}
