package exec

import (
	"errors"

	"jobd/journal"
)

// claiming is one claim under way.
type claiming struct {
	worker *Worker
	seen   map[string]int // rows that were found, by target
	rows   []journal.Row  // the same
	claimed
}

// claimed is what a claim has journalled, and the jobs that got a slot with it: they are started as soon as
// the claim is known to be won. Until then their slots are only reserved: nothing else is built on them.
type claimed struct {
	events []journal.Event
	starts []*job
}

var errStopping = errors.New("worker is stopping")

// decide accepts the rows that the worker may run, and journals it. A row of a
// job that is still under way here, reset by somebody, is left alone, and left out until that has ended.
func (c *claiming) decide(rows []journal.Row) ([]journal.Event, error) {
	w := c.worker
	c.rows = rows
	instance := w.instanceNow()
	w.mu.Lock()
	if w.stopping {
		w.mu.Unlock()
		return nil, errStopping
	}
	token := newToken(w.identity.mark)
	var drafts []journal.Draft
	for _, row := range rows {
		c.seen[row.Target]++
		t, served := w.targets[row.Target]
		switch {
		case !served || t.paused || t.retiring:
			continue
		case w.holds(row.Job):
			w.skipped[row.Job] = t
			continue
		}
		drafts = append(drafts, c.accept(w, row.Job, t, journal.Accepted{Target: t.name, Token: token, Created: row.Created}, instance)...)
	}
	w.mu.Unlock()
	return c.journalled(w, drafts)
}

// accept is what is journalled of a row that is accepted: its start too, where a slot is free. The lock is held.
func (c *claimed) accept(w *Worker, id int64, t *target, accepted journal.Accepted, instance string) []journal.Draft {
	drafts := []journal.Draft{{Job: id, Payload: accepted}}
	if instance == "" || t.paused || len(t.queue) > 0 || t.active >= t.concurrency || !w.mayStart() {
		return drafts
	}
	j := w.newJob(id, accepted, 1)
	w.takeSlot(j, reserved)
	if c.starts = append(c.starts, j); len(c.starts) == 1 {
		w.beginning.add()
	}
	return append(drafts, j.running(instance, true))
}

// journalled journals what the claim decides.
func (c *claimed) journalled(w *Worker, drafts []journal.Draft) (events []journal.Event, err error) {
	if len(drafts) > 0 {
		events, err = w.append(drafts...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.withdraw(c)
		return nil, err
	}
	c.events = events
	c.number()
	return events, nil
}

// number notes the events that announce the jobs with a slot. They are in the order of the jobs.
func (c *claimed) number() {
	starts := c.starts
	for _, e := range c.events {
		if e.Kind() == journal.KindRunning {
			starts[0].announced, starts[0].began, starts = e.Seq, e.Time, starts[1:]
		}
	}
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
func (w *Worker) won(c claimed) {
	w.mu.Lock()
	w.enqueue(c.events)
	w.mu.Unlock()
	if len(c.starts) > 0 {
		w.startClaimed(c.starts)
	}
}

// withdraw takes back the slots that a claim gave to its jobs. The lock is held.
func (w *Worker) withdraw(c *claimed) {
	if len(c.starts) > 0 {
		w.beginning.done()
	}
	for _, j := range c.starts {
		w.free(j)
		w.leave(j)
	}
	c.starts = nil
}
