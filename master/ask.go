package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// answerTimeout is how long a worker may take for anything but a manual job.
const answerTimeout = 5 * time.Second

// noAnswerError is the failure of a request whose answer did not come in time.
type noAnswerError struct{ within time.Duration }

func (e *noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", e.within) }

// requestWithin sends a request and waits so long for its answer. A noAnswerError is its failure
// where none comes.
func requestWithin(ctx context.Context, timeout time.Duration, link *jobnet.Link, typ string, data any) ([]byte, error) {
	return requestIn(ctx, timeout, func(ctx context.Context) (json.RawMessage, error) { return link.Request(ctx, typ, data) })
}

func requestIn(ctx context.Context, timeout time.Duration, ask func(context.Context) (json.RawMessage, error)) ([]byte, error) {
	silent := &noAnswerError{timeout}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, silent)
	defer cancel()
	answer, err := ask(ctx)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == error(silent) {
		err = silent
	}
	return answer, err
}

// askFor asks a worker for a client. One that does not know for whom it is asked can keep nobody from targets
// that it has not.
func (w *worker) askFor(ctx context.Context, who *principal.Session, typ string, data any) (json.RawMessage, error) {
	switch {
	case w.profile.Load().askers:
		return w.link.RequestFor(ctx, who, typ, data)
	case !who.All():
		return nil, jobnet.Refusef("it is of an older version, which answers only clients with all targets; %s has %s", who.Who(), who.Targets)
	}
	return w.link.Request(ctx, typ, data)
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

// reply is what became of a letter to one worker.
type reply struct {
	worker *worker
	data   any // of the letter
	answer []byte
	err    error
}

// round asks workers for a client.
type round struct {
	*Master
	from    *client
	who     *principal.Session
	typ     string
	timeout time.Duration // of the whole round

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

// askAll asks workers the same that a client asked, and gives what each of them says. What they say is
// kept until the client's own answer is on its way. Before they are asked for a change, that is recorded.
func (m *Master) askAll(ctx context.Context, link *jobnet.Link, request jobnet.Request, timeout time.Duration, letters []letter) ([]reply, error) {
	if changes(request.Type) {
		var asked []*worker
		for _, l := range letters {
			asked = append(asked, l.to...)
		}
		if err := m.record(request, asked); err != nil {
			return nil, err
		}
	}
	from, leave := m.clients.enter(link)
	defer leave()
	r := &round{Master: m, from: from, who: request.From, typ: request.Type, timeout: timeout}
	request.OnAnswered(r.release)
	return r.ask(ctx, letters)
}

// ask asks for what the letters say, and waits for all answers, no longer than the timeout in all:
// however many workers are silent, the client hears in time what the others say. The replies come in
// the order of the letters. Each letter is made JSON once. Few long ones are on their way at once, and
// fanOut workers are asked at once for all that the client wants.
//
// It waits for room for the letter before it takes slots, and a request with a slot waits for a
// worker only: so no request waits for another one that waits.
//
// Its error is that of ctx, which ends with the client's link. What the client wanted to change still
// goes to all workers, long letters too: a client that has left must not have signalled only half of
// its jobs. But the caller has nobody to tell, and what changes nothing is not asked any more: a
// master that stops waits for all that it does for clients.
func (r *round) ask(ctx context.Context, letters []letter) ([]reply, error) {
	inTime, end := context.WithTimeoutCause(context.WithoutCancel(ctx), r.timeout, &noAnswerError{r.timeout})
	defer end()
	var replies []reply
	for _, l := range letters {
		for _, w := range l.to {
			replies = append(replies, reply{worker: w, data: l.data})
		}
	}
	turns := 1 + max(0, len(replies)-1)/fanOut // where not all can be asked at once, each has its turn
	r.patience = (r.timeout / time.Duration(turns)).Round(10 * time.Millisecond)
	left := replies
	for _, l := range letters {
		r.send(ctx, inTime, l.data, left[:len(l.to)])
		left = left[len(l.to):]
	}
	r.all.Wait()
	return replies, ctx.Err()
}

// send asks the workers of one letter, as long as inTime lasts: also for a client that is gone, where
// that changes something, those that are there.
func (r *round) send(ctx, inTime context.Context, data any, replies []reply) {
	wanted := func(a reply) bool { return ctx.Err() == nil || changes(r.typ) && a.worker.link.Err() == nil }
	if !slices.ContainsFunc(replies, wanted) {
		return // the client is gone, or all links end: the master stops
	}
	text, err := jobnet.Encode(data)
	held := 0
	if err == nil && text.Len() > longBytes {
		held = min(text.Len(), forwardedBytes)
		if r.forwarded.Acquire(inTime, int64(held)) != nil {
			held, err = 0, context.Cause(inTime)
		}
	}
	left := new(atomic.Int64)
	left.Store(int64(len(replies)))
	done := func() {
		if left.Add(-1) == 0 {
			r.forwarded.Release(int64(held))
		}
	}
	for i := range replies {
		a := &replies[i]
		if a.err = err; err == nil && wanted(*a) {
			select {
			case r.from.slots <- struct{}{}:
				r.all.Go(func() {
					defer done()
					r.request(ctx, a, text)
				})
				continue
			case <-inTime.Done():
				a.err = context.Cause(inTime)
			}
		}
		done()
	}
}

// request asks one worker, for which a slot is taken.
func (r *round) request(ctx context.Context, a *reply, data jobnet.Encoded) {
	defer func() { <-r.from.slots }()
	a.answer, a.err = requestIn(ctx, r.patience, func(ctx context.Context) (json.RawMessage, error) {
		return a.worker.askFor(ctx, r.who, r.typ, data)
	})
	if tooMuch := r.keep(a.answer); tooMuch != nil {
		a.answer, a.err = nil, tooMuch
	}
}
