package master

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// status answers status.
func (m *Master) status(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	workers := m.registry.all()
	status := contract.FleetStatus[json.RawMessage]{Workers: make([]workerInfo, len(workers))}
	at := make(map[*worker]*workerInfo, len(workers))
	for i, w := range workers {
		status.Workers[i] = w.info()
		at[w] = &status.Workers[i]
	}
	cutTargets(status.Workers, mostStatusBytes)
	if polling, _ := contract.MasterStatus.Read(request.Fields()); polling.Workers {
		from, leave := m.clients.enter(link)
		defer leave()
		request.Proceed()
		asking := round{Master: m, from: from, typ: contract.Status.Name, timeout: answerTimeout}
		request.OnAnswered(asking.release)
		asking.answered = func(_ letter, w *worker, answer []byte, err error) {
			if err != nil {
				at[w].StatusError = clientText(err)
				return
			}
			at[w].Status = answer
			w.noteStatus(answer)
		}
		if err := asking.ask(ctx, []letter{{to: workers}}); err != nil {
			return nil, err
		}
		status.Unserved, status.UnservedCount = m.unserved(workers)
	}
	status.Memory, status.Build = m.config.Memory(), m.config.Build
	return status, nil
}

// Describe is in a line whom the master serves.
func (m *Master) Describe() string {
	workers := m.registry.all()
	if len(workers) == 0 {
		return "no worker is registered"
	}
	targets := make(map[string]bool)
	for _, w := range workers {
		for _, name := range w.profile.Load().targets {
			targets[name] = true
		}
	}
	return fmt.Sprintf("workers: %d, targets: %d", len(workers), len(targets))
}

func (w *worker) info() workerInfo {
	profile := w.profile.Load()
	info := workerInfo{Targets: profile.targets, Name: profile.name}
	if address, ok := w.link.RemoteAddr().(*net.TCPAddr); ok {
		info.RemoteAddr, info.RemotePort = address.IP.String(), address.Port
	}
	return info
}

// statusBytes is how long a status may be from which something is learnt: that of a worker with
// mostTargets is shorter.
const statusBytes = 2 << 20

// noteStatus learns the lengths of the worker's queues from its status; from one that can't be
// understood, nothing.
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
