package main

import (
	"sync"

	jobexec "jobd/exec"
	"jobd/net/api"
)

// shares are what the masters have lent this worker of the rates that all workers keep together.
// Where there are several masters, each lends all of a rate among the workers that it knows: the
// least counts.
type shares struct {
	worker *jobexec.Worker

	mu sync.Mutex
	by map[string]map[string]float64 // by master, by target
}

// rates are those that are to be asked for.
func (s *shares) rates() (list []api.SharedRate) {
	for _, r := range s.worker.FleetRates() {
		list = append(list, api.SharedRate{
			Target: r.Target, Starts: int64(r.Rate.Starts), Per: r.Rate.Per.Milliseconds(), Wants: r.Wants, Has: r.Share,
		})
	}
	return list
}

// lent takes in what a master lends.
func (s *shares) lent(master string, lent map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = make(map[string]map[string]float64)
	}
	s.by[master] = lent
	for target, share := range lent {
		for _, other := range s.by {
			if more, there := other[target]; there {
				share = min(share, more)
			}
		}
		s.worker.Lend(target, share)
	}
}
