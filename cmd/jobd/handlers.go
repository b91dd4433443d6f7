package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"

	"jobd/cmd/internal/version"
	jobexec "jobd/exec"
	"jobd/master"
	jobnet "jobd/net"
)

// handlers translates requests to the worker's calls; docs/protocol.md
// describes them.
type handlers struct{ *daemon }

func (h handlers) all() map[string]jobnet.Handler {
	return withRefusals(h.daemon, withJournal(h.daemon, map[string]jobnet.Handler{
		"poll":                   h.onTargets(h.poll),
		"pause":                  h.onTargets(h.worker.Pause),
		"continue":               h.onTargets(h.worker.Continue),
		"status":                 h.status,
		"add-target":             h.onConcurrency(h.worker.AddTarget),
		"remove-target":          h.removeTarget,
		"set-target-concurrency": h.onConcurrency(h.worker.SetConcurrency),
		"run-manual":             h.runManual,
		"send-signal":            h.sendSignal,
		"restart":                h.restart,
	}))
}

const ok = "ok"

// answer gives a client its answer; what the worker refuses is told as it is.
func answer(data any, err error) (any, error) {
	var refused jobexec.RefusedError
	if errors.As(err, &refused) {
		return nil, jobnet.Refusal(refused)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// onTargets handles a request about targets; none named means all.
func (h handlers) onTargets(do func(targets []string, by string) error) jobnet.Handler {
	return func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
		var targets []string
		if fields := request.Fields(); fields.Has("targets") {
			var err error
			if targets, err = fields.Targets(); err != nil {
				return nil, err
			}
		}
		return answer(ok, do(targets, master.Asker(ctx, link, request)))
	}
}

func (h handlers) poll(targets []string, _ string) error { return h.worker.Poll(targets) }

// onConcurrency handles a request about how many jobs of a target may run at once.
func (h handlers) onConcurrency(do func(target string, concurrency int, by string) error) jobnet.Handler {
	return func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
		fields := request.Fields()
		target, err := fields.Text("target")
		if err != nil {
			return nil, err
		}
		concurrency, err := fields.Int("concurrency")
		if err != nil {
			return nil, err
		}
		return answer(ok, do(target, int(concurrency), master.Asker(ctx, link, request)))
	}
}

func (h handlers) removeTarget(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	target, err := request.Fields().Text("target")
	if err != nil {
		return nil, err
	}
	return answer(ok, h.worker.RemoveTarget(target, master.Asker(ctx, link, request)))
}

// workerStatus is the answer to status. What the original's clients know comes first.
type workerStatus struct {
	Targets       map[string]jobexec.TargetStatus `json:"targets"`
	Clients       int                             `json:"jobPromisesCount"`
	Memory        jobnet.MemoryUsage              `json:"memoryUsage"`
	Name          string                          `json:"name"`
	Version       string                          `json:"version"`
	Journal       journalStatus                   `json:"journal"`
	ClaimsInDoubt int                             `json:"claimsInDoubt"`
	Strangers     int                             `json:"rowsOfNoWorker"` // under way, ours by target, claimed by nobody
	Mark          string                          `json:"mark,omitempty"`
	Server        string                          `json:"server,omitempty"` // the database server that claims are made on
	Aside         []asideRow                      `json:"aside"`
	AsideCount    int                             `json:"asideCount"`
	Masters       []master.AgentStatus            `json:"masters,omitempty"`
	PID           int                             `json:"pid"`
	Started       int64                           `json:"startedAt"`          // unix milliseconds; another one after each restart
	Launcher      *jobexec.Hitch                  `json:"launcher,omitempty"` // why no job can be started
}

// journalStatus tells how far the table is behind the journal.
type journalStatus struct {
	Events   uint64 `json:"events"`   // the newest event's number
	Mirrored uint64 `json:"mirrored"` // the newest event that the table shows
	Bytes    int64  `json:"bytes"`    // on disk
	Segments int    `json:"segments"`
}

func (h handlers) status(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
	status := h.worker.Status()
	bytes, segments := h.journal.Usage()
	mark, server := h.identity()
	aside := h.aside(status.Aside)
	return workerStatus{
		PID: os.Getpid(), Started: h.started.UnixMilli(),
		Mark: mark, Server: server, Aside: aside[:min(len(aside), mostAside)], AsideCount: len(aside),
		Targets: status.Targets, Clients: status.Clients, Memory: jobnet.MeasureMemory(),
		Name: h.worker.Name, Version: version.Version,
		Journal:       journalStatus{Events: h.newest(), Mirrored: h.mirror.Applied(), Bytes: bytes, Segments: segments},
		ClaimsInDoubt: status.Doubted, Strangers: status.Strangers, Masters: h.masters(), Launcher: status.Launcher,
	}, nil
}

// masters is how the worker stands with each of its masters.
func (h handlers) masters() []master.AgentStatus {
	var all []master.AgentStatus
	for _, agent := range h.agents {
		all = append(all, agent.Status())
	}
	return all
}

// manualAnswer is the answer to run-manual: each part only where it has entries.
type manualAnswer struct {
	Jobs   map[int64]jobexec.Result `json:"jobs,omitempty"`
	Errors map[int64]string         `json:"errors,omitempty"`
}

func (h handlers) runManual(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	list, err := request.Fields().List("ids")
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(list))
	for i, item := range list {
		if ids[i], err = jobID(item); err != nil {
			return nil, err
		}
	}
	request.Proceed()
	result, err := h.worker.RunManual(ctx, ids, master.Asker(ctx, link, request))
	if err == nil && !result.Requested && len(result.Errors) > 0 {
		h.refusals.add(request, master.Asker(ctx, link, request), firstOf(result.Errors))
	}
	return answer(manualAnswer{result.Jobs, result.Errors}, err)
}

// jobID is an id that a client sent, as jobnet.Whole has them. A number in quotes is none.
func jobID(item json.RawMessage) (int64, error) {
	id, err := jobnet.ParseWhole(item)
	switch kind := jobnet.TypeOf(item); {
	case err != nil && kind != "number":
		return 0, jobnet.Refusal("all ids must be numbers, got " + kind)
	case err != nil:
		return 0, jobnet.Refusef("all ids must be integers: %v", err)
	case id == 0:
		return 0, jobnet.Refusal("no job has the id 0")
	}
	return int64(id), nil
}

// mostSignals is how many jobs one request may signal: each signal is journalled before it is sent.
const mostSignals = 10_000

// sendSignal answers false for whatever can't be signalled: ids that are no
// integers, jobs that don't run here, unknown signals.
func (h handlers) sendSignal(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	jobs := jobnet.FieldsOf(request.Fields()["jobs"])
	if err := jobnet.AtMost("jobs", len(jobs), mostSignals); err != nil {
		return nil, err
	}
	delivered := make(map[string]bool)
	signals := make(map[int64]int)
	for key, value := range jobs {
		delivered[key] = false
		id, err := strconv.ParseInt(key, 10, 64)
		signo, whole := jobnet.Integer(value)
		if err == nil && whole && strconv.FormatInt(id, 10) == key {
			signals[id] = int(signo)
		}
	}
	for id, sent := range h.worker.SendSignal(signals, master.Asker(ctx, link, request)) {
		delivered[strconv.FormatInt(id, 10)] = sent
	}
	return delivered, nil
}
