package live

import (
	"fmt"
	"slices"
	"strings"

	"jobd/cmd/internal/operator"
	"jobd/net/api"
)

// worker is a worker, and what it says of itself.
type worker = operator.Answer[*api.WorkerStatus]

// workers are the one at the other end, or those of the master there.
func (m *model) workers() []worker {
	if m.fleet.answer == nil {
		return nil
	}
	return m.fleet.answer.Workers
}

// nameOf is a worker's name, as its master knows it, or else as it says.
func nameOf(w worker) string {
	if w.From.Name == "" && w.Value != nil {
		return w.Value.Name
	}
	return w.From.Name
}

// targets are all of them, by name, each summed up over the workers that serve it.
func (m *model) targets() (all []operator.Tally) {
	if m.fleet.answer == nil {
		return nil
	}
	all = m.fleet.answer.Tallies()
	for _, w := range m.workers() {
		for _, name := range w.From.Targets { // of which maybe only a silent one tells
			at, known := slices.BinarySearchFunc(all, name, func(t operator.Tally, name string) int { return strings.Compare(t.Target, name) })
			if !known && w.Err != nil {
				all = slices.Insert(all, at, operator.Tally{Target: name})
			}
		}
	}
	return all
}

// sumOf adds up all targets of some workers.
func sumOf(workers ...worker) (sum operator.Tally) {
	for _, t := range (&operator.Census{Workers: workers}).Tallies() {
		sum.Add(t)
	}
	return sum
}

// inUse is how many slots are in use, of how many.
func inUse(t operator.Tally) string {
	switch {
	case !t.Tells() && t.Slots == 0:
		return unknown
	case !t.Tells():
		return fmt.Sprintf("%s/%d", unknown, t.Slots)
	}
	return fmt.Sprintf("%d/%d", t.Running, t.Slots)
}

// rates are what was started, has ended and has failed within the last minute.
func rates(t operator.Tally) (started, ended, failed string) {
	if !t.Tells() {
		return unknown, unknown, unknown
	}
	return fmt.Sprint(t.Started), fmt.Sprint(t.Ended), fmt.Sprint(t.Failed)
}
