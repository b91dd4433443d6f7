package exec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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

// Answer tells a client what became of the jobs that it named.
type Answer struct {
	Jobs   map[int64]Result
	Errors map[int64]string
}

// claimTimeout bounds how long a client waits for its jobs to be claimed while
// the database is away.
const claimTimeout = 10 * time.Second

// RunManual claims jobs of status manual and waits until all of them are done.
// It fails, without having changed anything, when a client waits for one of them already; a
// job that can't be run is among the answer's errors. When ctx ends before, the jobs run
// on without a client.
func (w *Worker) RunManual(ctx context.Context, ids []int64) (Answer, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	clients, err := w.reserve(ids)
	if err != nil {
		return Answer{}, err
	}
	defer w.unreserve(clients)
	w.claimManual(context.WithoutCancel(ctx), ids, clients)
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

// claimManual claims the jobs, queues them, and tells the clients of those that can't be run.
func (w *Worker) claimManual(ctx context.Context, ids []int64, clients map[int64]*waiter) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	c := manualClaiming{worker: w, ids: ids, refusals: make(map[int64]string)}
	err := c.try(ctx)
	for id, refusal := range c.refusals {
		clients[id].tell(nil, refusal)
	}
	if err == nil {
		err = w.won(c.claimed)
	} else {
		w.doubt(c.claimed)
	}
	if err == nil {
		return
	}
	// Jobs whose claim is in doubt have a client still: the claim loop finds out
	// whether they were won, and then they run, or the client is told.
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, client := range clients {
		if !w.holds(id) {
			client.refuse(id, "the database could not be reached, or the journal not written")
		}
	}
}

// try claims until the table has answered or may have.
func (c *manualClaiming) try(ctx context.Context) error {
	retry := c.worker.Retry("claim manual jobs")
	for {
		err := c.worker.Disk.Check()
		if err == nil {
			_, err = c.worker.Table.ClaimManual(ctx, c.ids, nil, c.decide)
		}
		if err == nil || c.called || retry.Wait(ctx, err) != nil {
			return err
		}
	}
}

// manualClaiming is a claim of named jobs under way.
type manualClaiming struct {
	worker   *Worker
	ids      []int64
	called   bool
	refusals map[int64]string
	claimed
}

// decide accepts the rows of status manual that are for a target of this worker. Only
// a row that waits may be marked as ignored: any other status is history that is not
// to be lost.
func (c *manualClaiming) decide(rows []journal.Row) ([]journal.Event, error) {
	c.called = true
	w := c.worker
	found := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		found[row.Job] = row
	}
	instance := w.instanceNow()
	var drafts []journal.Draft
	token := newToken(w.Name)
	w.mu.Lock()
	for _, id := range c.ids {
		row, exists := found[id]
		if !exists {
			c.refusals[id] = fmt.Sprintf("job %d not found", id)
			continue
		}
		payload, refusal := w.judge(row, token)
		if refusal != "" {
			c.refusals[id] = refusal
		}
		switch p := payload.(type) {
		case journal.Accepted:
			drafts = append(drafts, c.accept(w, id, w.targets[row.Target], p, instance)...)
		case journal.Ignored:
			drafts = append(drafts, journal.Draft{Job: id, Payload: p})
		}
	}
	w.mu.Unlock()
	return c.journalled(w, drafts)
}

// judge says what becomes of a row that a client wants run. The lock is held.
func (w *Worker) judge(row journal.Row, token string) (payload journal.Payload, refusal string) {
	_, served := w.targets[row.Target]
	switch {
	case row.Status != journal.RowManual && row.Status != journal.RowWaiting:
		return nil, "status = " + row.Status + " != manual"
	case w.stopping:
		return nil, "worker is stopping"
	case w.holds(row.Job):
		return nil, fmt.Sprintf("job %d is still under way", row.Job)
	case row.Status == journal.RowWaiting:
		refusal = "status = waiting != manual"
	case !served:
		refusal = fmt.Sprintf("target '%s' not found (job id=%d)", row.Target, row.Job)
	default:
		return journal.Accepted{Target: row.Target, Manual: true, Token: token}, ""
	}
	return journal.Ignored{Reason: refusal}, refusal
}
