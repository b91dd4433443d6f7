package exec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"jobd/exec/board"
	"jobd/journal"
)

// waiter is a client that waits for one job.
type waiter struct {
	once    sync.Once
	told    chan struct{} // closed when it is answered
	result  *Result
	refusal string
	changed bool   // an operator's act changed its row
	undone  string // what does not happen to a job that can't be claimed
	doubted string // what an operator is told where it is not known whether the row was changed
}

// Words for waiter.undone.
const (
	notRun       = "was not run"
	notCancelled = "was not cancelled"
	notHurried   = "is as it was"
)

// tell answers the client with a result, or with why there is none. Only the first answer counts.
func (c *waiter) tell(result *Result, refusal string) {
	c.once.Do(func() {
		c.result, c.refusal = result, refusal
		close(c.told)
	})
}

// refuse tells the client that the job was not run, or not cancelled.
func (c *waiter) refuse(id int64, why string) {
	c.tell(nil, fmt.Sprintf("job %d %s: %s", id, c.undone, why))
}

// did tells an operator that the job's row was changed.
func (c *waiter) did() {
	c.once.Do(func() {
		c.changed = true
		close(c.told)
	})
}

// refuse tells a client that some of its jobs were not run.
func (m *manualClaim) refuse(ids []int64, why string) {
	for _, id := range ids {
		m.clients[id].refuse(id, why)
	}
}

// Answer tells a client what became of the jobs that it named.
type Answer struct {
	Jobs   map[int64]Result
	Errors map[int64]string

	Requested bool // something was done about the request, which is in the journal
}

// wish is what a client asks for: that jobs be run. It is journalled in one append with the first
// event about any of them, so that it costs nothing, and a client who asks in vain fills nothing.
type wish struct {
	by         string
	ids        []int64 // in ascending order
	journalled atomic.Bool
}

// mostNamed bounds how many ids of a request are journalled.
const mostNamed = 10_000

func (r *wish) draft() journal.Draft {
	named := r.ids[:min(len(r.ids), mostNamed)]
	return journal.Draft{Payload: journal.Requested{Jobs: named, More: len(r.ids) - len(named), By: r.by}}
}

// RunManual claims jobs of status manual and waits until all of them are done. by is who asked. It
// fails, without having changed anything, when a client waits for one of them already; a job that
// can't be run is among the answer's errors. When ctx ends before, the jobs run on without a
// client.
func (w *Worker) RunManual(ctx context.Context, ids []int64, by string) (Answer, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	asked := &wish{by: by, ids: ids}
	clients, err := w.reserve(ctx, asked)
	if err != nil {
		return Answer{}, err
	}
	defer w.unreserve(ids)
	answer := Answer{Jobs: make(map[int64]Result), Errors: make(map[int64]string)}
	for _, id := range ids {
		select {
		case <-clients[id].told:
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
		if result := clients[id].result; result != nil {
			answer.Jobs[id] = *result
		} else {
			answer.Errors[id] = clients[id].refusal
		}
	}
	answer.Requested = asked.journalled.Load()
	return answer, nil
}

// reserve notes that a client waits for each of the jobs, and begins to claim them.
func (w *Worker) reserve(ctx context.Context, asked *wish) (map[int64]*waiter, error) {
	clients := make(map[int64]*waiter, len(asked.ids))
	waits := make(map[int64]board.Client, len(asked.ids))
	for _, id := range asked.ids {
		clients[id] = &waiter{told: make(chan struct{}), undone: notRun}
		waits[id] = clients[id]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.board.Stopping() {
		return nil, RefusedError("worker is stopping")
	}
	if taken, ok := w.board.Wait(asked.ids, waits); !ok {
		return nil, RefusedError(fmt.Sprintf("another client is already waiting for job %d", taken))
	}
	w.starts.Go(func() { w.claimManual(ctx, asked, clients) })
	return clients, nil
}

// unreserve ends the waiting, answered or not.
func (w *Worker) unreserve(ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.board.Leave(ids)
}
