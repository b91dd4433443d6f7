package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// RetryAnswer tells a client what became of the rows that it named.
type RetryAnswer struct {
	Jobs   map[int64]string // what they are set back to
	Errors map[int64]string // why others are as they were
}

// retryBatch is how many rows are set back in one transaction.
const retryBatch = 500

// retryTimeout is for how long rows are tried.
const retryTimeout = claimTimeout

// SetBack sets rows back. Each is decided under its lock, and journalled before it is updated; so of
// any number of retries of one end of a job, whichever workers they go to, one sets it back. It
// fails, without having changed anything, when the worker stops.
func (w *Worker) SetBack(ctx context.Context, wish RetryWish) (RetryAnswer, error) {
	wish.IDs = slices.Compact(slices.Sorted(slices.Values(wish.IDs)))
	r := &retrying{
		worker: w, client: ctx, wish: wish, retry: w.Retry("retry jobs"), failed: make(map[int64]int),
		answer: RetryAnswer{Jobs: make(map[int64]string), Errors: make(map[int64]string)},
	}
	done := make(chan struct{})
	w.mu.Lock()
	if w.board.Stopping() {
		w.mu.Unlock()
		return RetryAnswer{}, RefusedError("worker is stopping")
	}
	w.starts.Go(func() {
		defer close(done)
		r.run()
	})
	w.mu.Unlock()
	select {
	case <-done:
		return r.answer, nil
	case <-ctx.Done():
		return RetryAnswer{}, ctx.Err()
	}
}

// tellSetBack has those look who may run rows that were set back: this worker, and through the masters
// all others.
func (w *Worker) tellSetBack(targets []string) {
	slices.Sort(targets)
	if targets = slices.Compact(targets); w.OnRetried != nil {
		w.OnRetried(targets)
	} else {
		w.GivenBack(targets)
	}
}

// retrying is one retry under way.
type retrying struct {
	worker *Worker
	client context.Context // ends when the client is gone
	wish   RetryWish
	to     map[int64]string
	retry  Retry // while nothing can be updated
	failed map[int64]int
	lock   lockWait // for rows that somebody else holds
	answer RetryAnswer
}

// run sets the rows back, batch by batch. A client that is gone wants no more of them.
func (r *retrying) run() {
	whole, cancel := context.WithCancel(r.worker.active)
	defer cancel()
	defer context.AfterFunc(r.client, cancel)()
	r.learn(whole) // of a long history that takes as long as it takes: the time is for the table
	ctx, end := context.WithTimeout(whole, retryTimeout)
	defer end()
	groups := slices.Collect(slices.Chunk(r.wish.IDs, retryBatch))
	for len(groups) > 0 {
		group := groups[0]
		groups = groups[1:]
		if len(group) > 0 {
			groups = append(r.try(ctx, group), groups...)
		}
	}
}

// learn finds out what the rows are set back to.
func (r *retrying) learn(ctx context.Context) {
	r.to = make(map[int64]string, len(r.wish.IDs))
	for _, id := range r.wish.IDs {
		switch to := r.wish.To[id]; {
		case to != "":
			r.to[id] = to
		case r.worker.WasManual != nil && r.worker.WasManual(ctx, id):
			r.to[id] = journal.RowManual
		default:
			r.to[id] = journal.RowWaiting
		}
	}
}

// retryTry is one transaction.
type retryTry struct {
	*retrying
	found  map[int64]bool
	fresh  []int64 // ended in this very second
	events []journal.Event
}

// try sets some rows back in one transaction, and gives those to be tried again, in groups.
func (r *retrying) try(ctx context.Context, ids []int64) (again [][]int64) {
	one := retryTry{retrying: r, found: make(map[int64]bool, len(ids))}
	err := r.worker.Disk.Check()
	if err != nil {
		err = noRoom{err}
	}
	var locked []int64
	if err == nil {
		locked, err = r.worker.Table.Retry(ctx, ids, one.decide)
	}
	if err != nil {
		return r.tryFailed(ctx, &one, ids, err)
	}
	r.committed(one.events)
	for _, id := range ids {
		if !one.found[id] && !slices.Contains(locked, id) {
			r.answer.Errors[id] = fmt.Sprintf("job %d not found", id)
		}
	}
	if len(locked) > 0 && !r.lock.again(ctx, nil) {
		r.refuse(locked, func(int64) string { return "the row is locked by somebody else" })
		locked = nil
	}
	if len(one.fresh) > 0 && !r.waitForSecond(ctx) {
		r.refuse(one.fresh, func(int64) string { return "it has only just ended: try again" })
		one.fresh = nil
	}
	return [][]int64{locked, one.fresh}
}

// decide journals which of the locked rows are set back.
func (t *retryTry) decide(rows []journal.Row) (events []journal.Event, err error) {
	w, now := t.worker, time.Now()
	var drafts []journal.Draft
	w.mu.Lock()
	for _, row := range rows {
		t.found[row.Job] = true
		why := t.refusal(row)
		switch {
		case why != "":
			t.answer.Errors[row.Job] = why
		case isFresh(row, now):
			t.fresh = append(t.fresh, row.Job)
		default:
			drafts = append(drafts, journal.Draft{Job: row.Job, Payload: journal.Retried{
				Target: row.Target, From: row.Status, To: t.to[row.Job], Result: row.Result, Finished: row.Finished, By: t.wish.By,
			}})
		}
	}
	w.mu.Unlock()
	if len(drafts) > 0 {
		t.events, err = w.append(drafts...)
	}
	return t.events, err
}

// refusal tells why a row is left as it is. Callers must hold w.mu.
func (t *retryTry) refusal(row journal.Row) string {
	expected, guarded := t.wish.Finished[row.Job]
	switch {
	case row.Status == journal.RowDelayed:
		return "status = delayed: it comes back by itself when it is due; run-now has it run at once"
	case row.Status != journal.RowDone && row.Status != journal.RowIgnored:
		return "status = " + row.Status + ": only what is done or ignored is retried"
	case guarded && row.Finished != expected:
		return "it has run again meanwhile"
	case t.worker.board.Holds(row.Job):
		return "it is still under way"
	case t.worker.board.Stopping():
		return "worker is stopping"
	}
	return ""
}

// slowClock is how far the clock that stamped a row may be ahead of this one to be waited for.
const slowClock = 2

// isFresh tells whether a row has ended in this very second. Ends are told apart by their second:
// that a row was set back, and has ended once more, shows in it only from the next one on.
func isFresh(row journal.Row, now time.Time) bool {
	ahead := row.Finished - now.Unix()
	return ahead >= 0 && ahead <= slowClock
}

// waitForSecond waits until the second is over.
func (r *retrying) waitForSecond(ctx context.Context) bool {
	now := time.Now()
	timer := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// committed takes in rows that are set back.
func (r *retrying) committed(events []journal.Event) {
	var targets []string
	for _, e := range events {
		of := e.Payload.(journal.Retried)
		if r.answer.Jobs[e.Job] = of.To; of.To == journal.RowWaiting {
			targets = append(targets, of.Target)
		}
	}
	if len(targets) > 0 {
		r.worker.tellSetBack(targets)
	}
}

// refuse tells why rows are as they were.
func (r *retrying) refuse(ids []int64, why func(id int64) string) {
	for _, id := range ids {
		r.answer.Errors[id] = fmt.Sprintf("job %d was not set back: %s", id, why(id))
	}
}

// tryFailed tells the client what is true of a transaction that failed, and gives the rows that are
// to be tried again, in groups.
func (r *retrying) tryFailed(ctx context.Context, one *retryTry, ids []int64, err error) (again [][]int64) {
	left := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { _, told := r.answer.Errors[id]; return told })
	refused := refusedRows(err)
	if len(one.events) > 0 && !(undone(err) && r.takeBack(one, err, refused)) {
		return r.awaitDoubt(ctx, one, left, err)
	}
	if known := illegal(err); known != nil && known.Job != 0 {
		refused = map[int64]string{known.Job: "the journal holds it as under way"}
	}
	if len(refused) > 0 {
		r.refuse(slices.Collect(maps.Keys(refused)), func(id int64) string { return "the table refuses it: " + refused[id] })
		return [][]int64{slices.DeleteFunc(left, func(id int64) bool { _, at := refused[id]; return at })}
	}
	switch {
	case isAway(err) || isOther(err):
		if r.retry.Wait(ctx, err) == nil {
			return [][]int64{left}
		}
	case holdsAll(err): // a full disk: the client asks again
	case ctx.Err() == nil && len(left) > 1: // one of them may be at fault
		half := len(left) / 2
		return [][]int64{left[:half], left[half:]}
	case ctx.Err() == nil && len(left) == 1 && r.failed[left[0]] < mostFailures:
		r.failed[left[0]]++
		if r.retry.Wait(ctx, err) == nil {
			return [][]int64{left}
		}
	}
	words := (&manualClaim{worker: r.worker, limit: retryTimeout}).words(ctx, err)
	r.refuse(left, func(int64) string { return words })
	return nil
}

// isOther tells that the server is another one, whose rows are compared with the journal first.
func isOther(err error) bool {
	var known interface {
		Away() bool
		Undone() bool
	}
	return errors.As(err, &known) && known.Undone() && !known.Away()
}

// takeBack journals that a retry was undone. It is false where the journal has no room for that;
// then the claim loop does it later.
func (r *retrying) takeBack(one *retryTry, err error, refused map[int64]string) bool {
	lost := lostReason(err, refused)
	drafts := make([]journal.Draft, len(one.events))
	for i, e := range one.events {
		drafts[i] = board.Unretried(e.Job, lost(e.Job))
	}
	_, failure := r.worker.append(drafts...)
	return failure == nil
}

// awaitDoubt has the claim loop find out whether rows were set back, and waits for that. It goes on
// after the client was told that it is not known yet.
func (r *retrying) awaitDoubt(ctx context.Context, one *retryTry, left []int64, err error) (again [][]int64) {
	waiters, clients := make(map[int64]*waiter), make(map[int64]board.Client)
	to := make(map[int64]string)
	for _, e := range one.events {
		waiters[e.Job] = &waiter{told: make(chan struct{})}
		clients[e.Job], to[e.Job] = waiters[e.Job], e.Payload.(journal.Retried).To
	}
	var lost func(int64) string
	if undone(err) {
		lost = lostReason(err, refusedRows(err))
	}
	r.worker.change(func(b *board.Board) board.Effects { return b.DoubtRetries(one.events, clients, lost) })
	for id, client := range waiters {
		select {
		case <-client.told:
		case <-ctx.Done():
		}
		switch {
		case !isClosed(client.told):
			r.answer.Errors[id] = "it is not known yet whether the row was set back: " + err.Error()
		case client.result != nil:
			r.answer.Jobs[id] = to[id]
		default:
			r.refuse([]int64{id}, func(int64) string { return client.refusal })
		}
	}
	rest := slices.DeleteFunc(left, func(id int64) bool { return waiters[id] != nil })
	return [][]int64{rest}
}

// Replan says what follows the end of a run whose row has another schedule by now than its claim had,
// as found tells: it is planned anew from there. The mirror asks it, and journals what it says before
// the row is updated.
func (w *Worker) Replan(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned {
	w.mu.Lock()
	defer w.mu.Unlock()
	return board.Replan(done, claim, found, w.zone, w.clock.now(time.Now()).Unix())
}
