package main

import (
	"maps"
	"slices"
)

// tally is a target, added up over the workers that serve it and have answered.
type tally struct {
	Target     string
	Workers    int // that serve it
	Untold     int // of those, how many can't tell what runs
	Paused     int // how many have it paused; see stands
	Unable     int // how many others can start no job of it
	Slots      int
	Running    int // slots in use, of those that tell
	Prefetched int
	Started    int // within the last minute
	Ended      int
	Failed     int
}

// tallies adds up all targets, by name. Those that were poked and are served by nobody are not
// among them.
func (s *census) tallies() []tally {
	all := make(map[string]tally)
	for _, w := range s.workers {
		if w.err != nil {
			continue
		}
		for name, target := range w.answer.Targets {
			t := all[name]
			t.Target = name
			t.Workers++
			t.Slots += target.Concurrency
			switch {
			case target.Paused:
				t.Paused++
			case w.answer.Stuck(name):
				t.Unable++
			}
			if !tellsMore(w.answer) {
				t.Untold++
			}
			t.Running += target.Running
			t.Prefetched += target.Prefetched
			t.Started += target.Started
			t.Ended += target.Ended
			t.Failed += target.Failed
			all[name] = t
		}
	}
	tallies := make([]tally, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tallies = append(tallies, all[name])
	}
	return tallies
}

// stands tells whether nobody starts jobs of the target, since all who serve it have it paused, or
// can't.
func (t tally) stands() bool { return t.Paused+t.Unable > 0 && t.Paused+t.Unable == t.Workers }

// why says of a target that stands why it does, as an aside within a sentence; of another one nothing.
func (t tally) why() string {
	switch {
	case !t.stands():
		return ""
	case t.Unable == 0:
		return ", which is paused,"
	}
	return ", whose jobs can't be started,"
}
