package exec

import (
	"errors"

	"jobd/journal"
)

// claiming is one claim under way.
type claiming struct {
	worker *Worker
	found  map[string]int
	claimed
}

// claimed is what a claim has journalled, and the jobs that got a slot with it: they are started as soon as
// the claim is known to be won.
type claimed struct {
	events []journal.Event
	starts []*job
}

// decide accepts the rows that the worker may run, and journals it. A row of a
// job that is still under way here, reset by somebody, is left alone.
func (c *claiming) decide(rows []journal.Row) ([]journal.Event, error) {
	w := c.worker
	instance := w.instanceNow()
	token := newToken(w.Name)
	w.mu.Lock()
	if w.stopping {
		w.mu.Unlock()
		return nil, errStopping
	}
	var drafts []journal.Draft
	for _, row := range rows {
		t, served := w.targets[row.Target]
		switch {
		case !served || t.paused || t.retiring:
			continue
		case w.holds(row.Job):
			t.skipped = true
			continue
		}
		c.found[row.Target]++
		drafts = append(drafts, c.accept(w, row.Job, t, journal.Accepted{Target: t.name, Token: token}, instance)...)
	}
	w.mu.Unlock()
	return c.journalled(w, drafts)
}

// accept is what is journalled of a row that is accepted: its start too, where a slot is free. The lock is held.
func (c *claimed) accept(w *Worker, id int64, t *target, accepted journal.Accepted, instance string) []journal.Draft {
	drafts := []journal.Draft{{Job: id, Payload: accepted}}
	if instance == "" || t == nil || t.paused || len(t.queue) > 0 || t.active >= t.concurrency {
		return drafts
	}
	j := &job{id: id, target: t, attempt: 1, slotted: true, waiter: w.waiters[id]}
	t.active++
	w.running.Add(1)
	w.jobs[id] = j
	if c.starts = append(c.starts, j); len(c.starts) == 1 {
		w.beginning.Add(1)
	}
	return append(drafts, j.running(instance, true))
}

// journalled journals what the claim decides.
func (c *claimed) journalled(w *Worker, drafts []journal.Draft) (events []journal.Event, err error) {
	if len(drafts) > 0 {
		events, err = w.append(drafts...)
	}
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.withdraw(c)
		return nil, err
	}
	c.events = events
	return events, nil
}

// instanceNow names the runner that is there; "" where there is none to be had at the moment.
func (w *Worker) instanceNow() string {
	name, err := w.Keeper.Instance()
	if err != nil {
		return ""
	}
	return name
}

// won starts and queues what a claim has won.
func (w *Worker) won(c claimed) error {
	err := w.enqueue(c.events)
	if len(c.starts) > 0 {
		w.startAll(c.starts)
	}
	return err
}

// withdraw takes back the slots that a claim gave to its jobs. The lock is held.
func (w *Worker) withdraw(c *claimed) {
	if len(c.starts) > 0 {
		w.beginning.Done()
	}
	for _, j := range c.starts {
		w.free(j)
		w.leave(j)
	}
	c.starts = nil
}

var errStopping = errors.New("worker is stopping")
