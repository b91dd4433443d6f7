package exec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"jobd/journal"
)

// waiter is a client that waits for one job.
type waiter struct {
	once    sync.Once
	told    chan struct{} // closed when it is answered
	result  *Result
	refusal string
}

// tell answers the client with a result, or with why there is none. Only the
// first answer counts.
func (c *waiter) tell(result *Result, refusal string) {
	c.once.Do(func() {
		c.result, c.refusal = result, refusal
		close(c.told)
	})
}

// refuse tells the client that the job was not run.
func (c *waiter) refuse(id int64, why string) {
	c.tell(nil, fmt.Sprintf("job %d was not run: %s", id, why))
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

// wish is what a client asks for: that jobs be run. It is journalled in one append with the first event about any of them, so
// that it costs nothing, and a client who asks in vain fills nothing.
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

// RunManual claims jobs of status manual and waits until all of them are done. by is who asked.
// It fails, without having changed anything, when a client waits for one of them already; a
// job that can't be run is among the answer's errors. When ctx ends before, the jobs run
// on without a client.
func (w *Worker) RunManual(ctx context.Context, ids []int64, by string) (Answer, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	clients, err := w.reserve(ids)
	if err != nil {
		return Answer{}, err
	}
	defer w.unreserve(clients)
	asked := &wish{by: by, ids: ids}
	go w.claimManual(ctx, asked, clients)
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

// reserve notes that a client waits for each of the jobs.
func (w *Worker) reserve(ids []int64) (map[int64]*waiter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return nil, RefusedError("worker is stopping")
	}
	for _, id := range ids {
		if _, taken := w.waiters[id]; taken {
			return nil, RefusedError(fmt.Sprintf("another client is already waiting for job %d", id))
		}
	}
	clients := make(map[int64]*waiter, len(ids))
	for _, id := range ids {
		clients[id] = &waiter{told: make(chan struct{})}
		w.waiters[id] = clients[id]
	}
	w.beginning.add() // until the jobs are claimed
	return clients, nil
}

// unreserve ends the waiting, answered or not.
func (w *Worker) unreserve(clients map[int64]*waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range clients {
		delete(w.waiters, id)
		if j, ok := w.jobs[id]; ok {
			j.waiter = nil
		}
	}
}
