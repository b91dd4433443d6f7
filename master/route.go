package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// job is a job as a client names it.
type job = api.SignalJob

// key is how answers name a job.
func key(j job) string { return strconv.FormatInt(int64(j.ID), 10) }

func notServed(target string) string {
	return fmt.Sprintf("worker serving target '%s' not found", target)
}

// merged gathers outcomes from several workers.
type merged struct {
	who    *principal.Session    // asks for the jobs
	record func([]*worker) error // called with the workers that are to be asked first, also if there are none

	mu sync.Mutex
	api.RelayedOutcomes
}

func (m *merged) fail(j job, text any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Errors[key(j)] = text
}

// take takes the outcomes of jobs over from the answer of a worker.
func (m *merged) take(jobs []job, answer api.RelayedOutcomes, w *worker) {
	for _, j := range jobs {
		if outcome, ok := answer.Jobs[key(j)]; ok {
			m.mu.Lock()
			m.Jobs[key(j)] = outcome
			m.mu.Unlock()
		} else if text, ok := answer.Errors[key(j)]; ok {
			m.fail(j, text)
		} else {
			m.fail(j, fmt.Sprintf("worker '%s' did not report what became of the job", w.name()))
		}
	}
}

// runManual answers run-manual: each job goes to the least loaded worker that serves its target,
// each worker gets all of its jobs in one request, and the answers are put together when all have
// come.
func (m *Master) runManual(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	from, leave := m.clients.enter(link)
	defer leave()
	asked, err := api.RouteManual.Read(request.From, request.Fields())
	if err != nil {
		return nil, err
	}
	jobs := make([]job, len(asked.Jobs))
	for i, j := range asked.Jobs {
		jobs[i].ID, jobs[i].Target = j.ID, j.Target
	}
	if err := m.clients.take(from, len(jobs)); err != nil {
		return nil, err
	}
	defer m.clients.give(from, len(jobs))
	request.Proceed()
	result := &merged{who: request.From}
	result.Jobs, result.Errors = make(map[string]json.RawMessage), make(map[string]any)
	result.record = func(workers []*worker) error { return m.record(request, workers) }
	if err := m.spread(ctx, jobs, nil, result); err != nil {
		return nil, err
	}
	return result.RelayedOutcomes, nil
}

// mostTries is how many workers are tried for a job. Each takes the deliveryTimeout where it does
// not answer, and a client must be told within 10 s what was never delivered.
const mostTries = 2

// spread has the jobs run by workers that were not tried, and waits until all have an outcome. Its
// error, if no worker was tried before, says that none was asked.
func (m *Master) spread(ctx context.Context, jobs []job, tried []*worker, result *merged) error {
	shares, left := map[*worker][]job(nil), jobs
	if len(tried) < mostTries {
		shares, left = m.registry.assign(jobs, tried, time.Now())
	}
	if len(tried) == 0 {
		if err := result.record(slices.Collect(maps.Keys(shares))); err != nil {
			for w, share := range shares {
				m.registry.takeBack(w, share)
			}
			return err
		}
	}
	for _, j := range left {
		result.fail(j, notDelivered(j, tried))
	}
	var all sync.WaitGroup
	for w, share := range shares {
		all.Go(func() {
			if !m.runShare(ctx, w, share, result) {
				m.say(slog.LevelWarn, w.link, "manual jobs were not delivered", "worker", w.name(), "jobs", len(share))
				_ = m.spread(ctx, share, append(slices.Clone(tried), w), result)
			}
		})
	}
	all.Wait()
	return nil
}

// notDelivered is what a client is told of a job that has reached none of the workers that were
// tried.
func notDelivered(j job, tried []*worker) string {
	if len(tried) == 0 {
		return notServed(j.Target)
	}
	return fmt.Sprintf("job %d was not delivered: worker '%s' does not answer", j.ID, tried[len(tried)-1].name())
}

// runShare has one worker run its share of the jobs, however long it takes. It tells whether they
// were delivered, as far as anybody can know: where they certainly were not, they have no outcome
// yet.
//
// The worker must answer a ping first. To a connection that is dead without having been closed
// nothing is sent that starts a job: what was never sent can't be read later, and may be given to
// another worker.
func (m *Master) runShare(ctx context.Context, w *worker, share []job, result *merged) (delivered bool) {
	data := api.Manual{IDs: make([]jobnet.Whole, len(share)), By: result.who.Address}
	for i, j := range share {
		data.IDs[i] = j.ID
	}
	defer m.registry.takeBack(w, share)
	answer, err := m.askManual(ctx, w, result.who, data)
	switch {
	case err == nil:
		result.take(share, answer, w)
		return true
	case errors.Is(err, jobnet.ErrUnsent) && ctx.Err() == nil:
		return false
	}
	text := clientText(err)
	if errors.Is(err, jobnet.ErrLinkClosed) {
		text = fmt.Sprintf("the connection to worker '%s' was lost, the outcome is unknown", w.name())
	}
	for _, j := range share {
		result.fail(j, text)
	}
	return true
}

// askManual sends run-manual to a worker that lives. ErrUnsent is among the causes of its error
// where the worker has certainly not got it.
func (m *Master) askManual(ctx context.Context, w *worker, who *principal.Session, data api.Manual) (answer api.RelayedOutcomes, err error) {
	living, cancel := context.WithTimeout(ctx, m.config.deliveryTimeout)
	defer cancel()
	if err := w.link.Ping(living); err != nil {
		return answer, fmt.Errorf("%w: %w", jobnet.ErrUnsent, err)
	}
	raw, err := w.askFor(ctx, who, api.RunManual.Name, data)
	if err != nil {
		return answer, err
	}
	if json.Unmarshal(raw, &answer) != nil {
		err = fmt.Errorf("worker '%s' gave an answer that can't be understood", w.name())
	}
	return answer, err
}

// clients counts what each client has under way, so that none of them takes everything. The zero
// value is ready; it is safe for concurrent use.
type clients struct {
	mu   sync.Mutex
	of   map[*jobnet.Link]*client // those with a request under way
	jobs int                      // that all of them wait for
}

// client is one client's part.
type client struct {
	requests int           // under way
	jobs     int           // by hand, that it waits for
	slots    chan struct{} // one for each worker that is asked for it
}

// enter begins a request of the client at the other end of link; leave ends it.
func (c *clients) enter(link *jobnet.Link) (from *client, leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[*jobnet.Link]*client)
	}
	if c.of[link] == nil {
		c.of[link] = &client{slots: make(chan struct{}, fanOut)}
	}
	from = c.of[link]
	from.requests++
	return from, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if from.requests--; from.requests == 0 {
			delete(c.of, link)
		}
	}
}

// take counts jobs that a client is going to wait for, where it may; give ends that.
func (c *clients) take(from *client, jobs int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case from.jobs+jobs > mostJobs:
		return jobnet.Refusef("too many jobs: a connection may wait for at most %d at once, and waits for %d", mostJobs, from.jobs).
			With(jobnet.CodeLimit)
	case jobs > freeJobs && c.jobs+jobs > mostJobsOfAll:
		return jobnet.Refusef("too many jobs: all clients together may wait for at most %d at once, and wait for %d", mostJobsOfAll, c.jobs).
			With(jobnet.CodeLimit)
	}
	from.jobs += jobs
	c.jobs += jobs
	return nil
}

func (c *clients) give(from *client, jobs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from.jobs -= jobs
	c.jobs -= jobs
}
