package disorder

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// stopTime is how long a worker may take to stop when everything is well, or to be known: longer than any
// job, and than shutdown_timeout. The rest is for a busy machine.
const stopTime = time.Minute

// heal ends everything that was wrong. It gives nobody a hint that the rules do not: rows that nobody was told of
// since they were committed are poked for, as their application would have done.
func (s *site) heal() {
	for len(s.open) > 0 {
		s.endOldest(func(*transaction) bool { return true })
	}
	s.allow()
	for _, w := range s.workers {
		w.table.heal()
		w.line.heal()
	}
	s.startMaster()
	for _, w := range s.workers {
		if w.stopping && !s.stopped(w, stopTime) {
			s.violated("stop", "%s did not stop within %s", w.name, stopTime)
			s.kill(w)
		}
		s.start(w)
	}
	s.Logf("healed; the workers are to be ready")
	for _, w := range s.workers {
		s.ready(w)
	}
	s.pokeForTheRest()
	s.Logf("healed")
}

// ready makes a worker what it was at first.
func (s *site) ready(w *worker) {
	answers := within(stopTime, func() bool {
		_, err := exchange(w.settings.Addr(), "status", nil, answerTime)
		return err == nil || !s.up(w)
	})
	if !answers {
		s.violated("worker ended", "%s does not answer: …%s", w.name, tail(w.daemon.Output(), 1500))
	}
	if w.edited {
		slots := number(s.choice["slots"])
		s.takeOver(w, map[string]int{"a": slots, "b": slots})
	}
	for target := range w.paused {
		s.resume(w, target)
	}
}

// pokeForTheRest pokes for rows that nobody was told of.
func (s *site) pokeForTheRest() {
	for _, target := range []string{"a", "b"} {
		if slices.ContainsFunc(s.rows, func(r *row) bool { return r.target == target && !r.deleted && !r.manual && len(r.hinted) == 0 }) {
			s.poke(target)
		}
	}
}

// atRest is what a row must read when all is over.
func atRest(r *row, found record) bool {
	switch {
	case r.deleted || found.status == "done" || r.cancelled && found.status == "ignored":
		return true
	case r.manual:
		return found.status == "manual"
	case r.target == "c" || found.target == "NULL":
		return found.status == waiting || found.status == delayed
	}
	return false
}

// settleAtTheEnd waits until every row is at rest.
func (s *site) settleAtTheEnd() {
	var missing []*row
	left := s.settle(func(table map[int64]record) string {
		missing = nil
		for _, r := range s.rows {
			if !atRest(r, table[r.id]) {
				missing = append(missing, r)
			}
		}
		return describe(missing, table)
	})
	if left == "" {
		return
	}
	rule := "stuck"
	table := s.readTable()
	if slices.ContainsFunc(missing, func(r *row) bool { return table[r.id].status == waiting }) {
		rule = "stranded"
	}
	var hints []string
	for _, r := range missing {
		hints = append(hints, fmt.Sprint(slices.Sorted(maps.Keys(r.hinted))))
	}
	s.violated(rule, "for %s nothing happened to %s; told of them were %v", settleTime, left, hints)
}

// registered is what the master says of a worker.
type registered struct {
	Name    string
	Targets []string
}

// awaitRegistered waits until the master lists each worker once, with its targets.
func (s *site) awaitRegistered() {
	var text json.RawMessage
	well := within(stopTime, func() bool {
		var err error
		if text, err = exchange(s.master.settings.Addr(), "status", nil, answerTime); err != nil {
			return false
		}
		var status struct{ Workers []registered }
		if err := json.Unmarshal(text, &status); err != nil || len(status.Workers) != len(s.workers) {
			return false
		}
		for _, w := range s.workers {
			i := slices.IndexFunc(status.Workers, func(r registered) bool { return r.Name == w.name })
			if i < 0 || fmt.Sprint(slices.Sorted(slices.Values(status.Workers[i].Targets))) != "[a b]" {
				return false
			}
		}
		return true
	})
	if !well {
		s.violated("registration", "the master does not list each worker once with its targets a and b: %.600s", text)
	}
}
