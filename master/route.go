package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	jobnet "jobd/net"
)

// job is a job as a client names it.
type job struct {
	id     int64
	target string
	signal int64 // of send-signal
}

func (j job) key() string { return strconv.FormatInt(j.id, 10) }

// jobsOf reads the list of jobs of a request, all of it before anything is done.
func jobsOf(request jobnet.Request, withSignal bool) ([]job, error) {
	items, err := request.Fields().List("jobs")
	if err != nil {
		return nil, err
	}
	jobs := make([]job, len(items))
	for i, item := range items {
		fields := jobnet.FieldsOf(item)
		if jobs[i].id, err = fields.Int("id"); err != nil {
			return nil, err
		}
		if withSignal {
			if jobs[i].signal, err = fields.Int("signal"); err != nil {
				return nil, err
			}
		}
		if jobs[i].target, err = fields.Text("target"); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

func notServed(target string) string {
	return fmt.Sprintf("worker serving target '%s' not found", target)
}

// manualData is what a worker is asked for with run-manual.
type manualData struct {
	IDs []int64 `json:"ids"`
}

// outcomes is the answer to run-manual, a worker's and the master's: by job id. Each job of the request is in one of them.
type outcomes struct {
	Jobs   map[string]json.RawMessage `json:"jobs,omitempty"`
	Errors map[string]any             `json:"errors,omitempty"`
}

// merged gathers outcomes from several workers.
type merged struct {
	mu sync.Mutex
	outcomes
}

func (m *merged) fail(j job, text any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Errors[j.key()] = text
}

// take takes the outcomes of jobs over from the answer of a worker.
func (m *merged) take(jobs []job, answer outcomes, w *worker) {
	for _, j := range jobs {
		if outcome, ok := answer.Jobs[j.key()]; ok {
			m.mu.Lock()
			m.Jobs[j.key()] = outcome
			m.mu.Unlock()
		} else if text, ok := answer.Errors[j.key()]; ok {
			m.fail(j, text)
		} else {
			m.fail(j, fmt.Sprintf("worker '%s' did not tell what became of the job", w.name()))
		}
	}
}

// runManual answers run-manual: each job goes to the least loaded worker that serves its target, each worker
// gets all of its jobs in one request, and the answers are put together when all have come.
func (m *Master) runManual(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	jobs, err := jobsOf(request, false)
	if err != nil {
		return nil, err
	}
	request.Proceed()
	result := &merged{outcomes: outcomes{Jobs: map[string]json.RawMessage{}, Errors: map[string]any{}}}
	shares := m.share(jobs, result)
	var all sync.WaitGroup
	for w, share := range shares {
		all.Go(func() { runShare(ctx, w, share, result) })
	}
	all.Wait()
	return result.outcomes, nil
}

// share gives each job, of which duplicates count once, to a worker, in the order of the request; those of
// targets that nobody serves fail.
func (m *Master) share(jobs []job, result *merged) map[*worker][]job {
	jobs, targets, counts := distinct(jobs)
	assigned := make(map[string][]*worker, len(targets))
	for _, target := range targets {
		assigned[target] = m.registry.assign(target, counts[target], time.Now())
	}
	shares := make(map[*worker][]job)
	for _, j := range jobs {
		workers := assigned[j.target]
		if len(workers) == 0 {
			result.fail(j, notServed(j.target))
			continue
		}
		shares[workers[0]] = append(shares[workers[0]], j)
		assigned[j.target] = workers[1:]
	}
	return shares
}

// distinct gives the jobs without duplicates, and their targets in the order in which they come up, with how many
// jobs each has.
func distinct(jobs []job) (once []job, targets []string, counts map[string]int) {
	counts = make(map[string]int)
	seen := make(map[int64]bool, len(jobs))
	for _, j := range jobs {
		if seen[j.id] {
			continue
		}
		seen[j.id] = true
		if counts[j.target]++; counts[j.target] == 1 {
			targets = append(targets, j.target)
		}
		once = append(once, j)
	}
	return once, targets, counts
}

// runShare has one worker run its share of the jobs, however long it takes.
func runShare(ctx context.Context, w *worker, share []job, result *merged) {
	data := manualData{IDs: make([]int64, len(share))}
	for i, j := range share {
		data.IDs[i] = j.id
		defer w.takeBack(j.target)
	}
	var answer outcomes
	raw, err := w.link.Request(ctx, "run-manual", data)
	if err == nil {
		if err = json.Unmarshal(raw, &answer); err != nil {
			err = fmt.Errorf("worker '%s' gave an answer that can't be understood", w.name())
		}
	}
	if err == nil {
		result.take(share, answer, w)
		return
	}
	text := told(err)
	if errors.Is(err, jobnet.ErrLinkClosed) {
		text = fmt.Sprintf("the connection to worker '%s' was lost, the outcome is unknown", w.name())
	}
	for _, j := range share {
		result.fail(j, text)
	}
}

// signalData is what a worker is asked for with send-signal: signal numbers by job id.
type signalData struct {
	Jobs map[string]int64 `json:"jobs"`
}

// sendSignal answers send-signal. Every worker that serves the target is asked: only one of them can run the job, and
// only it knows. The answer is true for jobs whose signal one of them delivered. A job has an error too where nobody
// delivered it and a worker could not be asked: it may be the one.
func (m *Master) sendSignal(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	jobs, err := jobsOf(request, true)
	if err != nil {
		return nil, err
	}
	workers := m.registry.all()
	delivered := make(map[string]bool)
	failed := make(map[string]string)
	var mu sync.Mutex
	each(workers, func(_ int, w *worker) {
		his := signalData{Jobs: make(map[string]int64)}
		for _, j := range jobs {
			if w.serves(j.target) {
				his.Jobs[j.key()] = j.signal
			}
		}
		if len(his.Jobs) == 0 {
			return
		}
		var answer map[string]bool
		raw, err := m.ask(ctx, w, "send-signal", his)
		if err == nil {
			err = json.Unmarshal(raw, &answer)
		}
		mu.Lock()
		defer mu.Unlock()
		for key := range his.Jobs {
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
