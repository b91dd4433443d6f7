package master

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// status answers status.
func (m *Master) status(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	who, workers := request.From, m.visible(request.From)
	status := api.FleetStatus[json.RawMessage]{Workers: make([]workerInfo, len(workers)), Down: m.registry.down(time.Now())}
	for i, w := range workers {
		status.Workers[i] = w.info()
		status.Workers[i].Targets = reached(who, status.Workers[i].Targets)
	}
	if !who.All() {
		for i := range status.Down {
			status.Down[i].Targets, status.Down[i].TargetsCut = reached(who, status.Down[i].Targets), 0
		}
		status.Down = slices.DeleteFunc(status.Down, func(w api.DownWorker) bool { return len(w.Targets) == 0 })
	}
	cutTargets(status.Workers, mostStatusBytes)
	if polling, _ := api.MasterStatus.Read(who, request.Fields()); polling.Workers {
		request.Proceed()
		patience := answerTimeout
		if polling.Patience > 0 {
			patience = min(patience, time.Duration(polling.Patience)*time.Millisecond)
		}
		replies, err := m.askAll(ctx, link, request, patience, []letter{{to: workers}})
		if err != nil {
			return nil, err
		}
		for i, r := range replies {
			if r.err != nil {
				status.Workers[i].StatusError = clientText(r.err)
				continue
			}
			status.Workers[i].Status = r.answer
			if who.All() { // else it is not all that the worker has
				m.registry.noteStatus(r.worker, r.answer, time.Now())
			}
		}
		if who.All() {
			status.Unserved, status.UnservedCount = m.unserved(workers)
		}
	}
	status.Memory, status.Build, status.Troubles = m.config.Memory(), m.config.Build, m.config.Troubles()
	return status, nil
}

// Describe says in a line which workers the master has, and what keeps it from changes.
func (m *Master) Describe() string {
	s := m.Standing()
	words := fmt.Sprintf("workers: %d, targets: %d", s.Workers, s.Targets)
	if s.Workers == 0 {
		words = "no worker is registered"
	}
	for _, t := range m.config.Troubles() {
		words += "; changes are refused: " + t.Why
	}
	return words
}

func (w *worker) info() workerInfo {
	profile := w.profile.Load()
	info := workerInfo{Targets: profile.targets, Name: profile.name}
	switch address := w.link.RemoteAddr().(type) {
	case *net.TCPAddr:
		info.RemoteAddr, info.RemotePort = address.IP.String(), address.Port
	case jobnet.PeerAddr:
		info.RemoteAddr, info.RemotePort = address.Network(), address.PID
	}
	return info
}

// workerInfo is what the master tells of a worker.
type workerInfo = api.FleetWorker[json.RawMessage]

// mostStatusBytes is how much the names of all targets take in a status. Those of one worker fit
// in, the longest there may be; a status is made for each client that asks, and is in memory until
// that client has read it.
const mostStatusBytes = 3 << 20

// cutTargets leaves out targets where all together have more than most bytes, and counts them: no
// worker has more than an equal part then.
func cutTargets(workers []workerInfo, most int) {
	const around = len(`"",`)
	total := 0
	for _, w := range workers {
		for _, target := range w.Targets {
			total += len(target) + around
		}
	}
	if total <= most {
		return
	}
	for i := range workers {
		w, left := &workers[i], most/len(workers)
		for n, target := range w.Targets {
			if left -= len(target) + around; left < 0 {
				w.TargetsCut = len(w.Targets) - n
				w.Targets = w.Targets[:n:n]
				break
			}
		}
	}
}

// detail is the answer that tells somebody how many workers serve the targets, or are there at all where
// none is named, and which targets none of them serves.
func (m *Master) detail(who *principal.Session, targets []string) api.Done {
	all := m.visible(who)
	served, workers := serving(all, selectionOf(targets))
	if targets == nil {
		workers = len(all)
	}
	detail := api.Done{Workers: &workers}
	for _, target := range unique(targets) {
		if !served[target] {
			detail.Unserved = append(detail.Unserved, target)
		}
	}
	return detail
}

// serving tells which of the wanted names the workers serve, and how many of the workers do.
func serving(workers []*worker, wanted selection) (served map[string]bool, count int) {
	served = make(map[string]bool)
	for _, w := range workers {
		names := w.profile.Load().match(wanted)
		for _, name := range names {
			served[name] = true
		}
		if len(names) > 0 {
			count++
		}
	}
	return served, count
}

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
