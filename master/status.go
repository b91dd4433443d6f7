package master

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"time"

	jobnet "jobd/net"
)

// Status is what the master answers to status.
type Status struct {
	Workers     []WorkerInfo       `json:"workers"` // in the order in which they registered
	MemoryUsage jobnet.MemoryUsage `json:"memoryUsage"`
}

// WorkerInfo describes one registered worker. The last two are there only where workers were polled.
type WorkerInfo struct {
	RemoteAddr        string          `json:"remoteAddr"`
	RemotePort        int             `json:"remotePort"`
	Targets           []string        `json:"targets"`
	Name              string          `json:"name"`
	WorkerStatus      json.RawMessage `json:"workerStatus,omitempty"` // the worker's own answer to status
	WorkerStatusError string          `json:"workerStatusError,omitempty"`
}

// status answers status.
func (m *Master) status(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	workers := m.registry.all()
	status := Status{Workers: make([]WorkerInfo, len(workers))}
	for i, w := range workers {
		status.Workers[i] = w.info()
	}
	if request.Fields().Flag("poll_workers") {
		request.Proceed()
		each(workers, func(i int, w *worker) {
			info := &status.Workers[i]
			answer, err := m.ask(ctx, w, "status", nil)
			if err != nil {
				info.WorkerStatusError = told(err)
				return
			}
			info.WorkerStatus = answer
			w.noteStatus(answer)
		})
	}
	status.MemoryUsage = jobnet.MeasureMemory()
	return status, nil
}

func (w *worker) info() WorkerInfo {
	profile := w.profile.Load()
	info := WorkerInfo{Targets: profile.targets, Name: profile.name}
	if address, ok := w.link.RemoteAddr().(*net.TCPAddr); ok {
		info.RemoteAddr, info.RemotePort = address.IP.String(), address.Port
	}
	return info
}

// noteStatus learns the lengths of the worker's queues from its status; from one that can't be understood, nothing.
func (w *worker) noteStatus(answer []byte) {
	var status struct {
		Targets map[string]struct{ Length int }
	}
	if json.Unmarshal(answer, &status) != nil {
		return
	}
	lengths := make(map[string]int, len(status.Targets))
	for target, queue := range status.Targets {
		lengths[target] = queue.Length
	}
	w.noteLengths(lengths, time.Now())
}

// pause answers pause and continue: each worker concerned is asked the same for the targets that it serves. The answer is ok
// when all of them did it.
func (m *Master) pause(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var targets []string
	if fields := request.Fields(); fields.Has("targets") {
		var err error
		if targets, err = fields.Targets(); err != nil {
			return nil, err
		}
	}
	workers, wanted := m.registry.all(), selectionOf(targets)
	failures := make([]string, len(workers))
	each(workers, func(i int, w *worker) {
		served := w.profile.Load().served(wanted)
		if targets != nil && served == nil {
			return
		}
		if _, err := m.ask(ctx, w, request.Type, targetsData{Targets: served, By: link.RemoteAddr().String()}); err != nil {
			failures[i] = "worker '" + w.name() + "': " + told(err)
		}
	})
	if failed := strings.Join(nonEmpty(failures), "; "); failed != "" {
		return nil, jobnet.Refusal(failed)
	}
	return "ok", nil
}

func nonEmpty(list []string) []string {
	var out []string
	for _, text := range list {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}
