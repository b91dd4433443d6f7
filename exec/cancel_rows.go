package exec

import (
	"context"
	"fmt"
	"slices"

	"jobd/exec/board"
	"jobd/journal"
)

// cancelRows marks rows as not to be run that nobody has claimed, whatever their target, as a claim
// by hand does: locked, journalled, updated, committed. What a claim at the same moment has locked
// is waited for, and then told as what it is. A row whose COMMIT is in doubt is found out about by
// the claim loop. A worker that stops waits for the end of it.
func (w *Worker) cancelRows(ctx context.Context, ids []int64, want CancelWish, told *Cancelled) {
	if len(ids) == 0 {
		return
	}
	ended := make(chan struct{})
	w.mu.Lock()
	stopping := w.board.Stopping()
	if !stopping {
		w.starts.Go(func() {
			defer close(ended)
			for group := range slices.Chunk(ids, cancelTogether) {
				w.cancelSome(ctx, group, want, told)
			}
		})
	}
	w.mu.Unlock()
	if !stopping {
		<-ended
		return
	}
	for _, id := range ids {
		told.Errors[id] = fmt.Sprintf("job %d %s: worker is stopping", id, notCancelled)
	}
}

// cancelSome is cancelRows for a few of the rows.
func (w *Worker) cancelSome(client context.Context, ids []int64, want CancelWish, told *Cancelled) {
	ctx, cancel := context.WithTimeout(w.active, cancelTimeout)
	defer cancel()
	asked := &wish{} // what is journalled of each row tells who asked
	asked.journalled.Store(true)
	m := &manualClaim{
		worker: w, client: client, asked: asked, clients: make(map[int64]*waiter, len(ids)), retry: w.Retry("cancel jobs"),
		failed: make(map[int64]int), limit: cancelTimeout, operators: true,
	}
	targets := make(map[int64]string, len(ids))
	m.accept = func(_ *board.Claim, row journal.Row, _, _ string) (drafts []journal.Draft, refusal string) {
		if target := want.Targets[row.Job]; target != "" && target != row.Target {
			return nil, fmt.Sprintf("job %d %s: it is of target '%s', not '%s'", row.Job, notCancelled, row.Target, target)
		}
		drafts, refusal, elsewhere := w.board.CancelRow(row, want.By)
		if elsewhere {
			told.Elsewhere[row.Job] = row
		}
		targets[row.Job] = row.Target
		return drafts, refusal
	}
	for _, id := range ids {
		m.clients[id] = &waiter{
			told: make(chan struct{}), undone: notCancelled,
			doubted: journal.CancelledBy(want.By) + "; it is not known yet whether the row was marked as ignored",
		}
	}
	if isClosed(w.Mirror.Away()) {
		m.refuse(ids, "nobody is known to have it, and the database could not be reached")
	} else {
		m.claimAll(ctx, ids)
	}
	for _, id := range ids {
		_, elsewhere := told.Elsewhere[id]
		switch c := m.clients[id]; {
		case elsewhere:
		case c.changed:
			told.Jobs[id] = CancelledJob{Did: board.NotRun, Target: targets[id], By: want.By}
		default:
			told.Errors[id] = c.refusal
		}
	}
}
