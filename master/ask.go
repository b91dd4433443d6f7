package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
)

// answerTimeout is how long a worker may take for anything but a manual job.
const answerTimeout = 5 * time.Second

// ask sends a request that a worker answers at once, and waits for it no longer than answerTimeout.
func (m *Master) ask(ctx context.Context, w *worker, typ string, data any) ([]byte, error) {
	return requestWithin(ctx, answerTimeout, w.link, typ, data)
}

// noAnswerError is the failure of a request whose answer did not come in time.
type noAnswerError struct{ within time.Duration }

func (e *noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", e.within) }

// requestWithin sends a request and waits so long for its answer. A noAnswerError is its failure
// where none comes.
func requestWithin(ctx context.Context, timeout time.Duration, link *jobnet.Link, typ string, data any) ([]byte, error) {
	silent := &noAnswerError{timeout}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, silent)
	defer cancel()
	answer, err := link.Request(ctx, typ, data)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == error(silent) {
		err = silent
	}
	return answer, err
}

// clientText is a worker's failure as clients are told: its own words, or why there are none.
func clientText(err error) string {
	var remote *jobnet.RemoteError
	switch {
	case errors.As(err, &remote):
		return remote.Text
	case errors.Is(err, jobnet.ErrLinkClosed):
		return "connection lost"
	}
	return err.Error()
}

// letter is data that several workers are asked for.
type letter struct {
	to   []*worker
	data any
}

// round asks workers for a client.
type round struct {
	*Master
	from    *client
	typ     string
	timeout time.Duration // of the whole round

	// answered gets each worker's answer to each letter, from many goroutines at once; none that
	// comes when the client is gone.
	answered func(l letter, w *worker, answer []byte, err error)

	patience time.Duration // with each worker
	kept     atomic.Int64  // bytes of the answers so far, until they are released
	all      sync.WaitGroup
}

var (
	errTooMuch      = fmt.Errorf("not kept: the answers of all workers may have at most %d bytes", mostAnswerBytes)
	errTooMuchOfAll = fmt.Errorf("not kept: the answers for all clients may have at most %d bytes: try again", mostKeptBytes)
)

// keep counts an answer, which is not kept where that gives an error.
func (r *round) keep(answer []byte) error {
	bytes := int64(len(answer))
	switch {
	case r.kept.Add(bytes) > mostAnswerBytes:
		r.kept.Add(-bytes)
		return errTooMuch
	case r.answers.Add(bytes) > mostKeptBytes:
		r.answers.Add(-bytes)
		r.kept.Add(-bytes)
		return errTooMuchOfAll
	}
	return nil
}

// release ends the keeping of the answers.
func (r *round) release() { r.answers.Add(-r.kept.Swap(0)) }

// ask asks for what the letters say, and waits for all answers, no longer than the timeout in all:
// however many workers are silent, the client hears in time what the others say. The caller has them
// released when its own answer is on its way. Each letter is made JSON once. Few long ones are on
// their way at once, and fanOut workers are asked at once for all that the client wants.
//
// It waits for room for the letter before it takes slots, and a request with a slot waits for a
// worker only: so no request waits for another one that waits.
//
// Its error is that of ctx, which ends with the client's link. What the client wanted to change still
// goes to all workers, long letters too: a client that has left must not have signalled only half of
// its jobs. But nothing is made of the answers, what changes nothing is not asked any more, and the
// caller has nothing to tell: a master that stops waits for all that it does for clients.
func (r *round) ask(ctx context.Context, letters []letter) error {
	inTime, end := context.WithTimeoutCause(context.WithoutCancel(ctx), r.timeout, &noAnswerError{r.timeout})
	defer end()
	asked := 0
	for _, l := range letters {
		asked += len(l.to)
	}
	turns := 1 + max(0, asked-1)/fanOut // where not all can be asked at once, each has its turn
	r.patience = (r.timeout / time.Duration(turns)).Round(10 * time.Millisecond)
	for _, l := range letters {
		err := r.send(ctx, inTime, l)
		if err == nil || ctx.Err() != nil {
			continue
		}
		for _, w := range l.to {
			r.answered(l, w, nil, err)
		}
	}
	r.all.Wait()
	return ctx.Err()
}

// slot takes a slot to ask a worker, if it is still to be asked.
func (r *round) slot(ctx, inTime context.Context, w *worker) error {
	if !r.wanted(ctx, w) {
		return ctx.Err()
	}
	select {
	case r.from.slots <- struct{}{}:
		return nil
	case <-inTime.Done():
		return context.Cause(inTime)
	}
}

// wanted tells whether a worker is still to be asked: also for a client that is gone, where that
// changes something, and as long as the worker is there.
func (r *round) wanted(ctx context.Context, w *worker) bool {
	return ctx.Err() == nil || changes(r.typ) && w.link.Err() == nil
}

// send asks the workers of one letter, as long as inTime lasts. After an error it has asked none of
// them.
func (r *round) send(ctx, inTime context.Context, l letter) error {
	if !slices.ContainsFunc(l.to, func(w *worker) bool { return r.wanted(ctx, w) }) {
		return ctx.Err() // the client is gone, or all links end: the master stops
	}
	data, err := jobnet.Encode(l.data)
	if err != nil {
		return err
	}
	held := 0
	if data.Len() > longBytes {
		held = min(data.Len(), forwardedBytes)
		if r.forwarded.Acquire(inTime, int64(held)) != nil {
			return context.Cause(inTime)
		}
	}
	left := new(atomic.Int64)
	left.Store(int64(len(l.to)))
	done := func() {
		if left.Add(-1) == 0 {
			r.forwarded.Release(int64(held))
		}
	}
	for _, w := range l.to {
		if err := r.slot(ctx, inTime, w); err != nil {
			done()
			if ctx.Err() == nil {
				r.answered(l, w, nil, err)
			}
			continue
		}
		r.all.Go(func() {
			answer, err := requestWithin(ctx, r.patience, w.link, r.typ, data)
			<-r.from.slots
			done()
			if ctx.Err() != nil {
				return
			}
			if tooMuch := r.keep(answer); tooMuch != nil {
				answer, err = nil, tooMuch
			}
			r.answered(l, w, answer, err)
		})
	}
	return nil
}
