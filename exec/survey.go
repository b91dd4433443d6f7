package exec

import (
	"context"
	"slices"

	"jobd/journal"
)

// survey looks, once after a start, for rows under way of which the journal knows nothing. It comes
// before the first claim.
//
// Rows that bear a token of this worker, while the journal is new, tell that the journal was
// lost: nobody knows whether those jobs ran, so their outcome is unknown. Rows of our targets that
// bear no token were left by something else, the original jobd for one; they are counted and left
// alone.
func (w *Worker) survey(ctx context.Context) error {
	if w.surveyed {
		return nil
	}
	rows, err := w.Table.UnderWay(ctx, "@"+ownerHash(w.Name), w.TargetNames())
	if err != nil {
		return err
	}
	var lost []journal.Row
	strangers := 0
	for _, row := range rows {
		switch {
		case row.Owner == "":
			strangers++
		case w.fresh && !w.knows(row.Job):
			lost = append(lost, row)
		}
	}
	if strangers > 0 {
		w.Logger.Warn("rows of our targets are accepted or running and belong to no worker; they are left alone", "rows", strangers)
	}
	w.mu.Lock()
	w.strangers, w.surveyed = strangers, true
	w.mu.Unlock()
	return w.takeUpLost(lost)
}

// knows tells whether the journal or a claim under way speaks of a job.
func (w *Worker) knows(id int64) bool {
	w.mu.Lock()
	holds := w.holds(id)
	w.mu.Unlock()
	return holds || w.status(id) != journal.StatusNone
}

// takeUpLost journals jobs whose journal was lost, and ends them like all whose
// outcome is unknown.
func (w *Worker) takeUpLost(rows []journal.Row) error {
	if len(rows) == 0 {
		return nil
	}
	w.Logger.Error("the journal is new, but rows bear this worker's mark: their outcome is unknown", "rows", len(rows), "requeue", w.Requeue)
	for group := range slices.Chunk(rows, 100) {
		var drafts []journal.Draft
		for _, row := range group {
			drafts = append(
				drafts,
				journal.Draft{Job: row.Job, Payload: journal.Accepted{Target: row.Target, Token: row.Owner}},
				journal.Draft{Job: row.Job, Payload: journal.Running{Attempt: 1}},
			)
		}
		if _, err := w.record(drafts...); err != nil {
			return err
		}
		w.mu.Lock()
		var err error
		for _, row := range group {
			if err = w.loseOld(journal.Job{ID: row.Job, Target: row.Target, Attempt: 1}, "the journal that knew it was lost"); err != nil {
				break
			}
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
