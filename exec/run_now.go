package exec

import (
	"context"
	"fmt"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// RanNow tells what became of rows that somebody wants to be run at once.
type RanNow struct {
	Jobs   map[int64]int64  // those that are due now: when they were due before, in seconds since 1970
	Errors map[int64]string // why others are as they were
}

// RunNow makes delayed rows due at once, whatever their target, as a claim by hand does: locked,
// journalled, updated, committed. When a row was planned stays as it is, and so does what follows its
// run. by is who asks. It fails, without having changed anything, when the worker stops, and where
// the journal's disk has too little room or the database is away.
func (w *Worker) RunNow(ctx context.Context, ids []int64, by string) (RanNow, error) {
	told := RanNow{Jobs: make(map[int64]int64), Errors: make(map[int64]string)}
	if !w.Delays {
		return told, RefusedError("rows are not delayed here: the key use_columns does not name run_at")
	}
	if err := w.Disk.Check(); err != nil {
		return told, RefusedError("no row was made due: there is no room for the journal: " + err.Error())
	}
	if isClosed(w.Mirror.Away()) {
		return told, RefusedError("no row was made due: the database could not be reached")
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	done := make(chan struct{})
	w.mu.Lock()
	if w.board.Stopping() {
		w.mu.Unlock()
		return told, RefusedError("worker is stopping")
	}
	w.starts.Go(func() {
		defer close(done)
		w.awaitTold()
		for group := range slices.Chunk(ids, cancelTogether) {
			w.runSomeNow(ctx, group, by, &told)
		}
	})
	w.mu.Unlock()
	select {
	case <-done:
		return told, nil
	case <-ctx.Done():
		return RanNow{}, ctx.Err()
	}
}

// runSomeNow is RunNow for a few rows.
func (w *Worker) runSomeNow(client context.Context, ids []int64, by string, told *RanNow) {
	ctx, cancel := context.WithTimeout(w.active, claimTimeout)
	defer cancel()
	asked := &wish{} // what is journalled of each row tells who asked
	asked.journalled.Store(true)
	m := &manualClaim{
		worker: w, client: client, asked: asked, clients: make(map[int64]*waiter, len(ids)), retry: w.Retry("run delayed jobs now"),
		failed: make(map[int64]int), limit: claimTimeout, operators: true,
	}
	due, targets := make(map[int64]int64, len(ids)), make(map[int64]string, len(ids))
	m.accept = func(_ *board.Claim, row journal.Row, _, _ string) (drafts []journal.Draft, refusal string) {
		drafts, refusal = w.board.RunRowNow(row, by, w.clock.now(time.Now()))
		if len(drafts) > 0 {
			due[row.Job], targets[row.Job] = row.Plan.RunAt, row.Target
		}
		return drafts, refusal
	}
	for _, id := range ids {
		m.clients[id] = &waiter{
			told: make(chan struct{}), undone: notHurried,
			doubted: fmt.Sprintf("job %d: it is not known yet whether it is due now: its row tells", id),
		}
	}
	m.claimAll(ctx, ids)
	var names []string
	for _, id := range ids {
		if c := m.clients[id]; c.changed {
			told.Jobs[id] = due[id]
			names = append(names, targets[id])
		} else {
			told.Errors[id] = c.refusal
		}
	}
	if len(names) > 0 {
		w.tellSetBack(names)
	}
}

// awaitTold waits a moment for the table to show what the journal has: a row that has just come back
// reads as running before that.
func (w *Worker) awaitTold() {
	var newest uint64
	w.Recorder.View(func(s *journal.State) { newest = s.Seq })
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	w.eventually(w.Mirror.Tried(newest), timer.C)
}
