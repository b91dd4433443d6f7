package gearman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	jobexec "jobd/exec"
)

// functions are those that clients and workers name. Where rows are inserted, one that is no target becomes one; else
// nothing is done for it.
type functions struct {
	front *Front

	sweeping sync.Mutex
	swept    time.Time // guarded by sweeping

	mu      sync.Mutex
	found   map[string]*slots // of targets that no configuration names
	limits  map[string]int    // most rows, by function
	fitting bool              // numbers of slots are being set
}

// slots are those of a function that became a target.
type slots struct{ set, wanted int }

// mostFound is how many functions are targets that no configuration names. Who needs one more has those dropped that
// nobody needs, where that was not tried just before.
const (
	mostFound  = 1000
	sweepEvery = time.Second
)

// On whose behalf targets are changed.
const (
	byWorkers = "gearman_concurrency: as many as workers are connected"
	byNobody  = "gearman: it has neither workers nor jobs, and others became targets"
	byRows    = "gearman: jobs of it were submitted"
)

func newFunctions(f *Front) *functions {
	return &functions{front: f, found: map[string]*slots{}, limits: map[string]int{}}
}

// Found has functions become targets again whose rows the table has at the start: with the launcher of each.
func (f *Front) Found(names []string) map[string]*jobexec.Launcher {
	all := make(map[string]*jobexec.Launcher, len(names))
	for _, name := range names {
		all[name] = launcher()
		f.functions.found[name] = &slots{f.Slots(0), f.Slots(0)}
	}
	return all
}

// Reload says which functions stay targets though a configuration that is about to be taken over does not name them,
// with their launchers: those that workers can do, and those that were found before. What it names is its own from
// now on; of a function that nobody can do now, the next worker that can makes a target again.
func (f *Front) Reload(configured map[string]int) map[string]*jobexec.Launcher {
	s := f.functions
	names := f.server.Doable()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.found[name] == nil && name != "null" && f.intake != nil {
			s.found[name] = &slots{wanted: f.Slots(f.server.WorkersOf(name))} // what is set is not known
		}
	}
	maps.DeleteFunc(s.found, func(name string, _ *slots) bool { _, is := configured[name]; return is })
	all := make(map[string]*jobexec.Launcher, len(s.found))
	for name := range s.found {
		all[name] = launcher()
	}
	return all
}

// Reloaded serves those that Reload gave and that are no targets yet, with as many slots as each is to have.
func (f *Front) Reloaded(found map[string]*jobexec.Launcher, by string) {
	for name := range found {
		if !f.Worker.Serves(name) {
			if err := f.Worker.FindTarget(name, f.Slots(f.server.WorkersOf(name)), *launcher(), by); err != nil {
				f.Logger.Error("a function is not served", "function", name, "error", err)
			}
		}
		f.functions.workers(name, f.server.WorkersOf(name))
	}
}

// Slots is how many jobs of a function are started at once that so many workers can do.
func (f *Front) Slots(workers int) int {
	if f.Concurrency > 0 {
		return f.Concurrency
	}
	return max(workers, 1)
}

// launcher has Gearman workers run jobs.
func launcher() *jobexec.Launcher {
	return &jobexec.Launcher{
		Mode: jobexec.ModeGearman, Words: []string{string(jobexec.ModeGearman)}, Service: jobexec.Service{Mode: jobexec.ModeGearman},
	}
}

// Add implements gearman.Functions.
func (s *functions) Add(name, by string) error {
	f := s.front
	if f.intake == nil || f.Worker.Serves(name) {
		return nil
	}
	if name == "null" {
		return errors.New("the name null is reserved")
	}
	n := f.Slots(f.server.WorkersOf(name))
	if !s.note(name, n) {
		if s.sweep(); !s.note(name, n) {
			return fmt.Errorf("%d functions with workers or jobs are targets already, which is the most", mostFound)
		}
	}
	err := f.Worker.FindTarget(name, n, *launcher(), by)
	if err == nil || f.Worker.Serves(name) { // somebody was faster
		return nil
	}
	s.forget(name)
	return err
}

// note notes a function that becomes a target, if one more may.
func (s *functions) note(name string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[name] == nil && len(s.found) >= mostFound {
		return false
	}
	s.found[name] = &slots{n, n}
	return true
}

func (s *functions) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.found, name)
}

// sweep drops the functions that nobody needs.
func (s *functions) sweep() {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if time.Since(s.swept) < sweepEvery {
		return
	}
	s.swept = time.Now()
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.found))
	s.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return s.front.server.WorkersOf(name) > 0 })
	if err := s.drop(context.Background(), byNobody, names); err != nil && !errors.Is(err, errJobs) {
		s.front.Logger.Warn("unused functions could not be removed from the targets", "error", err)
	}
}

// Drop implements gearman.Functions.
func (s *functions) Drop(ctx context.Context, name, by string) error {
	s.mu.Lock()
	found := s.found[name] != nil
	s.mu.Unlock()
	switch {
	case !s.front.Worker.Serves(name):
		return errors.New("function not found")
	case !found:
		return errors.New("the function is a target of the configuration, which must be changed")
	}
	return s.drop(ctx, by, []string{name})
}

// errJobs is why a function stays.
var errJobs = errors.New("there are jobs of it, which would be lost")

// drop has functions served no more, but for those with rows that are not at their end: they would be run no more.
// Somebody may submit one meanwhile: if that row is not seen here, its submission makes a target of it again.
func (s *functions) drop(ctx context.Context, by string, names []string) error {
	busy, err := s.front.Table.Targets(ctx)
	if err != nil {
		return err
	}
	var kept error
	var dropped []string
	for _, name := range names {
		err := errJobs
		if !slices.Contains(busy, name) {
			err = s.front.Worker.RemoveTarget(name, by)
		}
		if err == nil {
			dropped = append(dropped, name)
		}
		kept = cmp.Or(kept, err)
	}
	if len(dropped) > 0 {
		busy, err = s.front.Table.Targets(ctx)
	}
	for _, name := range dropped {
		if err != nil || slices.Contains(busy, name) {
			again := s.front.Worker.FindTarget(name, s.front.Slots(s.front.server.WorkersOf(name)), *launcher(), byRows)
			kept = errors.Join(kept, cmp.Or(err, errJobs), again)
		}
		if !s.front.Worker.Serves(name) {
			s.forget(name)
		}
	}
	return kept
}

// Limit implements gearman.Functions.
func (s *functions) Limit(name string, most int) bool {
	if !s.front.Worker.Serves(name) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[name] = most
	return true
}

// limit is how many rows of a function there may be; 0: nothing bounds them.
func (s *functions) limit(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits[name]
}

// workers hears how many workers can do a function.
func (s *functions) workers(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.found[name]
	if of == nil {
		return
	}
	if of.wanted = s.front.Slots(n); of.wanted != of.set && !s.fitting {
		s.fitting = true
		s.front.tasks.Go(s.fit)
	}
}

// fit sets numbers of slots until they are as wanted.
func (s *functions) fit() {
	for {
		s.mu.Lock()
		name, n := "", 0
		for one, of := range s.found {
			if of.wanted != of.set {
				name, n, of.set = one, of.wanted, of.wanted
				break
			}
		}
		s.fitting = name != ""
		s.mu.Unlock()
		if name == "" {
			return
		}
		if err := s.front.Worker.SetConcurrency(name, n, byWorkers); err != nil {
			s.front.Logger.Warn("the slots of a function do not follow its workers", "function", name, "slots", n, "error", err)
		}
	}
}
