package master

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	jobnet "jobd/net"
)

// signalData is what a worker is asked for with send-signal: signal numbers by job id.
type signalData struct {
	Jobs map[string]int64 `json:"jobs"`
	By   string           `json:"by"` // who asks, see Asker
}

// sendSignal answers send-signal. Every worker that serves the target is asked: only one of them
// can run the job, and only it knows. The answer is true for jobs whose signal one of them
// delivered. A job has an error too where nobody delivered it and a worker could not be asked: it
// may be the one.
func (m *Master) sendSignal(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	jobs, err := jobsOf(request, true)
	if err != nil {
		return nil, err
	}
	workers := m.registry.all()
	delivered := make(map[string]bool)
	failed := make(map[string]string)
	var mu sync.Mutex
	each(workers, func(_ int, w *worker) {
		share := signalData{Jobs: make(map[string]int64), By: link.RemoteAddr().String()}
		served := w.profile.Load()
		for _, j := range jobs {
			if served.serves(j.target) {
				share.Jobs[j.key()] = j.signal
			}
		}
		if len(share.Jobs) == 0 {
			return
		}
		var answer map[string]bool
		raw, err := m.ask(ctx, w, "send-signal", share)
		if err == nil {
			err = json.Unmarshal(raw, &answer)
		}
		mu.Lock()
		defer mu.Unlock()
		for key := range share.Jobs {
			delivered[key] = delivered[key] || answer[key]
			if err != nil {
				failed[key] = fmt.Sprintf("worker '%s': %s", w.name(), told(err))
			}
		}
	})
	return signalAnswer(jobs, delivered, failed), nil
}

// signalAnswer puts together what was delivered and what failed, by job id.
func signalAnswer(jobs []job, delivered map[string]bool, failed map[string]string) map[string]any {
	answer, failures := make(map[string]any), make(map[string]string)
	for _, j := range jobs {
		key := j.key()
		done, asked := delivered[key]
		switch {
		case !asked:
			failures[key] = notServed(j.target)
			continue
		case !done && failed[key] != "":
			failures[key] = failed[key]
		}
		answer[key] = done
	}
	if len(failures) > 0 {
		answer["errors"] = failures
	}
	return answer
}
