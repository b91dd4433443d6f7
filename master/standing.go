package master

import (
	"sync/atomic"
	"time"
)

// Standing is how a master stands, in numbers.
type Standing struct {
	Workers       int       // that are registered
	Targets       int       // that they serve
	Ended         uint64    // registrations that are over
	Poked         uint64    // targets that clients have poked
	Polled        uint64    // polls that were sent
	Unserved      int       // targets that were poked and that no worker serves
	UnservedSince time.Time // of the first of them; zero: there is none
}

// tallies are what a master counts.
type tallies struct{ poked, polled atomic.Uint64 }

// Standing tells how the master stands. It asks no worker.
func (m *Master) Standing() Standing {
	workers := m.registry.all()
	s := Standing{Workers: len(workers), Ended: m.registry.ended.Load(), Poked: m.tallies.poked.Load(), Polled: m.tallies.polled.Load()}
	served := make(map[string]bool)
	for _, w := range workers {
		for _, target := range w.profile.Load().targets {
			served[target] = true
		}
	}
	s.Targets = len(served)
	list, count := m.unserved(workers)
	if s.Unserved = count; count > 0 {
		s.UnservedSince = time.UnixMilli(list[0].Since)
	}
	return s
}
