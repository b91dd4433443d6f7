package exec

import (
	"errors"
	"time"

	"jobd/exec/board"
	"jobd/exec/schedule"
	"jobd/journal"
)

// claiming is one claim under way.
type claiming struct {
	worker *Worker
	seen   map[string]int // rows that were found, by target
	rows   []journal.Row  // the same
	board.Claim
}

var errStopping = errors.New("worker is stopping")

// decide accepts the rows that the worker may run, and journals it.
func (c *claiming) decide(rows []journal.Row) ([]journal.Event, error) {
	w := c.worker
	c.rows = rows
	instance, now := w.instanceNow(), time.Now()
	readZones(rows)
	w.mu.Lock()
	if w.board.Stopping() {
		w.mu.Unlock()
		return nil, errStopping
	}
	token := newToken(w.identity.mark)
	w.board.SetAhead(w.clock.ahead(now))
	var drafts []journal.Draft
	for _, row := range rows {
		c.seen[row.Target]++
		drafts = append(drafts, w.board.Accept(&c.Claim, row, token, instance, now)...)
	}
	w.mu.Unlock()
	return w.decided(&c.Claim, drafts)
}

// readZones has the zones of rows read, which are kept then, before the worker's lock is taken.
func readZones(rows []journal.Row) {
	for _, row := range rows {
		if row.Plan != nil && row.Plan.Zone != "" {
			_, _ = schedule.Zone(row.Plan.Zone) // what is wrong with it the board tells
		}
	}
}

// decided journals what a claim decides.
func (w *Worker) decided(c *board.Claim, drafts []journal.Draft) (events []journal.Event, err error) {
	if len(drafts) > 0 {
		events, err = w.append(drafts...)
	}
	w.change(func(b *board.Board) board.Effects {
		if err != nil {
			return b.Withdraw(c)
		}
		b.Decided(c, events)
		return board.Effects{}
	})
	return c.Events, err
}

// instanceNow names the runner that is there; "" where there is none to be had at the moment.
func (w *Worker) instanceNow() string {
	name, err := w.Keeper.Instance()
	if err != nil {
		return ""
	}
	return name
}

// won goes on with what a claim has won.
func (w *Worker) won(c *board.Claim) {
	w.change(func(b *board.Board) board.Effects {
		for _, e := range c.Events {
			delete(w.asides, e.Job)
		}
		return b.Won(c)
	})
}
