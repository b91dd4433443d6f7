package exec

import (
	"context"
	"errors"
	"maps"
	"slices"

	"jobd/exec/board"
	"jobd/journal"
)

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
