package exec

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"jobd/journal"
)

// doubt is a claim of which it is not known whether it was won.
type doubt struct {
	journal.Accepted
	started bool // if it was won, it may have been started, by a runner that is gone
}

// doubt remembers claims whose commit may or may not have happened.
func (w *Worker) doubt(c claimed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range c.events {
		if accepted, ok := e.Payload.(journal.Accepted); ok {
			w.doubtful[e.Job] = doubt{Accepted: accepted}
		}
	}
	w.withdraw(&c)
	if len(w.doubtful) > 0 {
		w.wake()
	}
}

// resolve asks the table which of the claims in doubt were won: the row of one
// that was bears the claim's token. The others are released.
func (w *Worker) resolve(ctx context.Context) error {
	claims := w.doubts()
	if len(claims) == 0 {
		return nil
	}
	rows, _, err := w.Table.Rows(ctx, slices.Sorted(maps.Keys(claims)))
	if err != nil {
		return err
	}
	var won []journal.Event
	for _, row := range rows {
		claim := claims[row.Job]
		if !underWay(row) || row.Owner != claim.Token {
			continue
		}
		delete(claims, row.Job)
		if claim.started {
			if err := w.loseDoubted(row.Job, claim); err != nil {
				return err
			}
			continue
		}
		won = append(won, journal.Event{Job: row.Job, Payload: claim.Accepted})
	}
	if err := w.release(slices.Sorted(maps.Keys(claims)), "the claim was not won"); err != nil {
		return err
	}
	return w.enqueue(won)
}

// underWay tells whether a row is one that a worker has.
func underWay(row journal.Row) bool {
	return row.Status == journal.RowAccepted || row.Status == journal.RowRunning
}

// loseDoubted ends a job whose claim turned out to be won, and of which nobody knows whether it was started.
func (w *Worker) loseDoubted(id int64, claim doubt) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.doubtful, id)
	return w.loseOld(journal.Job{ID: id, Target: claim.Target, Attempt: 1}, killedWhileItRan)
}

func (w *Worker) doubts() map[int64]doubt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.doubtful)
}

// holds tells whether a job is under way here. The lock is held.
func (w *Worker) holds(id int64) bool {
	_, doubtful := w.doubtful[id]
	_, claimed := w.jobs[id]
	return claimed || doubtful
}

// undone tells whether a claim that failed is known not to have happened, see Claimer.
func undone(err error) bool {
	var known interface{ Undone() bool }
	return errors.As(err, &known) && known.Undone()
}

// overtakenPause is the longest pause of a worker whose claim lost against another one. Its length is random, so that
// the two do not meet again and again.
const overtakenPause = 20 * time.Millisecond

// overtaken gives back what a claim that was undone had accepted: there is nothing to look for in the table.
func (w *Worker) overtaken(ctx context.Context, claims []journal.Event) error {
	var ids []int64
	for _, e := range claims {
		if e.Kind() == journal.KindAccepted {
			ids = append(ids, e.Job)
		}
	}
	if err := w.release(ids, "another claim was faster"); err != nil {
		return err
	}
	select {
	case <-time.After(rand.N(overtakenPause)):
	case <-ctx.Done():
	}
	return nil
}
