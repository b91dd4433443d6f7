package exec

import (
	"context"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// RetryWish is what a client asks for: that rows which are done or ignored be set back, to be run
// once more.
type RetryWish struct {
	IDs      []int64
	Finished map[int64]int64  // only while the row's time_finished is this, in seconds since 1970
	To       map[int64]string // waiting or manual; for others the journal knows, else it is waiting
	By       string           // who asks
}

// SetBack sets rows back, and tells to what. Each is decided under its lock, and journalled before it is updated; so of
// any number of retries of one end of a job, whichever workers they go to, one sets it back. It
// fails, without having changed anything, when the worker stops.
func (w *Worker) SetBack(ctx context.Context, wish RetryWish) (Answer[string], error) {
	ids := slices.Compact(slices.Sorted(slices.Values(wish.IDs)))
	to := w.setBackTo(ctx, ids, wish) // of a long history that takes as long as it takes: the time is for the table
	return do(ctx, w, ids, act{
		what: "retry jobs", undone: notSetBack, limit: claimTimeout,
		doubted: func(int64) string { return "it is not known yet whether the row was set back" },
		accept: func(_ *board.Claim, row journal.Row, _, _ string) (drafts []journal.Draft, refusal string) {
			return w.retry(row, wish, to[row.Job])
		},
	}, func(id int64, _ Result) string { return to[id] })
}

// setBackTo finds out what rows are set back to.
func (w *Worker) setBackTo(ctx context.Context, ids []int64, wish RetryWish) map[int64]string {
	all := make(map[int64]string, len(ids))
	for _, id := range ids {
		switch to := wish.To[id]; {
		case to != "":
			all[id] = to
		case w.WasManual(ctx, id):
			all[id] = journal.RowManual
		default:
			all[id] = journal.RowWaiting
		}
	}
	return all
}

// retry is what is journalled of a row that is set back, or why it is left as it is. One that has ended
// in this very second is tried again later. Callers must hold w.mu.
func (w *Worker) retry(row journal.Row, wish RetryWish, to string) (drafts []journal.Draft, refusal string) {
	expected, guarded := wish.Finished[row.Job]
	switch {
	case row.Status == journal.RowDelayed:
		return nil, "status = delayed: it comes back by itself when it is due; run-now has it run at once"
	case row.Status != journal.RowDone && row.Status != journal.RowIgnored:
		return nil, "status = " + row.Status + ": only done or ignored rows are retried"
	case guarded && row.Finished != expected:
		return nil, "it has run again meanwhile"
	case w.board.Holds(row.Job):
		return nil, "it is still under way"
	case w.board.Stopping():
		return nil, "worker is stopping"
	case isFresh(row, time.Now()):
		return nil, ""
	}
	return []journal.Draft{{Job: row.Job, Payload: journal.Retried{
		Target: row.Target, From: row.Status, To: to, Result: row.Result, Finished: row.Finished, By: wish.By,
	}}}, ""
}

// slowClock is how far the clock that stamped a row may be ahead of this one to be waited for.
const slowClock = 2

// isFresh tells whether a row has ended in this very second. Ends are told apart by their second:
// that a row was set back, and has ended once more, shows in it only from the next one on.
func isFresh(row journal.Row, now time.Time) bool {
	ahead := row.Finished - now.Unix()
	return ahead >= 0 && ahead <= slowClock
}

// Replan says what follows the end of a run whose row has another schedule by now than its claim had,
// as found tells: it is planned anew from there. The mirror asks it, and journals what it says before
// the row is updated.
func (w *Worker) Replan(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Replan(done, claim, found, w.clock.now(time.Now()).Unix())
}
