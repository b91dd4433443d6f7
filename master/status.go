package master

import (
	"context"
	"encoding/json"
	"net"
	"time"

	jobnet "jobd/net"
)

// Status is what the master answers to status.
type Status struct {
	Workers     []WorkerInfo       `json:"workers"` // in the order in which they registered
	MemoryUsage jobnet.MemoryUsage `json:"memoryUsage"`
}

// WorkerInfo describes one registered worker. What a worker itself answered is there only where workers were polled.
type WorkerInfo struct {
	RemoteAddr        string          `json:"remoteAddr"`
	RemotePort        int             `json:"remotePort"`
	Targets           []string        `json:"targets"`
	TargetsCut        int             `json:"targetsCut,omitempty"` // how many more it has than there is room for
	Name              string          `json:"name"`
	WorkerStatus      json.RawMessage `json:"workerStatus,omitempty"` // the worker's own answer to status
	WorkerStatusError string          `json:"workerStatusError,omitempty"`
}

// status answers status.
func (m *Master) status(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	workers := m.registry.all()
	status := Status{Workers: make([]WorkerInfo, len(workers))}
	at := make(map[*worker]*WorkerInfo, len(workers))
	for i, w := range workers {
		status.Workers[i] = w.info()
		at[w] = &status.Workers[i]
	}
	cutTargets(status.Workers, mostStatusBytes)
	if request.Fields().Flag("poll_workers") {
		from, leave := m.clients.enter(link)
		defer leave()
		request.Proceed()
		asking := round{Master: m, from: from, typ: "status", timeout: answerTimeout}
		asking.answered = func(_ letter, w *worker, answer []byte, err error) {
			if err != nil {
				at[w].WorkerStatusError = told(err)
				return
			}
			at[w].WorkerStatus = answer
			w.noteStatus(answer)
		}
		asking.ask(ctx, []letter{{to: workers}})
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

// statusBytes is how long a status may be from which something is learnt: that of a worker with
// mostTargets is shorter.
const statusBytes = 2 << 20

// noteStatus learns the lengths of the worker's queues from its status; from one that can't be understood, nothing.
func (w *worker) noteStatus(answer []byte) {
	if len(answer) > statusBytes {
		return
	}
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
