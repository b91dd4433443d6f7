package net

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// What all links of a server together may take of the memory. What is short does not count, so that
// who asks little is never kept waiting by those who ask much: a link has up to shortBytes of each
// kind for itself, its frame, its request and its answers.
const (
	shortBytes     = 64 << 10
	framesBytes    = 64 << 20  // frames that are being received
	requestsBytes  = 128 << 20 // requests under way, as their handlers read them
	answersBytes   = 128 << 20 // answers that are being sent
	deliveredBytes = 512 << 20 // answers to our own requests, beyond the length of a request
	encodedAtOnce  = 4         // more would be no faster, and each takes several times the length of its answer
	rationPatience = 5 * time.Second
)

// errRationed ends a link that waited too long for memory which others take.
var errRationed = errors.New("too much is asked at once: try again")

// rations are one server's. Nil bounds nothing: that of a link that we made ourselves.
type rations struct {
	frames, requests, answers, delivered ration
	pens                                 chan struct{} // one for each answer that is being encoded
	eyes                                 chan struct{} // one for each long frame that is being parsed
}

func newRations(maxMessage int) *rations {
	return &rations{
		frames:   ration{limit: max(framesBytes, 2*maxMessage)},
		requests: ration{limit: max(requestsBytes, 2*maxMessage)},
		answers:  ration{limit: answersBytes}, delivered: ration{limit: deliveredBytes},
		pens: make(chan struct{}, encodedAtOnce),
		eyes: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// ration is an amount of memory that links share. It is safe for concurrent use.
type ration struct {
	limit int // bytes

	mu    sync.Mutex
	taken int
	freed chan struct{} // closed when some is given back; nil while nobody waits
}

// take waits until there is so much to be had. One taker may always have what it wants, however
// much that is.
func (r *ration) take(ctx context.Context, bytes int) error {
	for {
		freed := r.tryTake(bytes)
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryTake takes, or gives a channel that tells when to try again.
func (r *ration) tryTake(bytes int) (later <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == 0 || r.taken+bytes <= r.limit {
		r.taken += bytes
		return nil
	}
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// give gives back.
func (r *ration) give(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= bytes
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// pen waits until one more answer may be encoded, and gives what ends that.
func (r *rations) pen() (done func()) {
	if r == nil {
		return func() {}
	}
	r.pens <- struct{}{}
	return func() { <-r.pens }
}

// parse is parse, leaving a processor free for short frames.
func (l *Link) parse(frame []byte) (message, error) {
	if l.rations != nil && len(frame) > shortBytes {
		l.rations.eyes <- struct{}{}
		defer func() { <-l.rations.eyes }()
	}
	return parse(frame)
}

// held is what a link has taken for the frame that it receives.
type held struct{ frames, delivered int }

// hold takes what a buffer of so many bytes needs beyond what is held already.
func (l *Link) hold(buffer int) error {
	if l.rations == nil || buffer <= shortBytes {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, rationPatience, errRationed)
	defer cancel()
	h := &l.receiver.held
	frames := min(buffer, l.config.MaxMessageSize)
	if err := l.rations.frames.take(ctx, frames-h.frames); err != nil {
		return err
	}
	h.frames = frames
	if delivered := buffer - frames; delivered > h.delivered {
		if err := l.rations.delivered.take(ctx, delivered-h.delivered); err != nil {
			return err
		}
		h.delivered = delivered
	}
	return nil
}

// release gives back what was held.
func (l *Link) release() {
	h := &l.receiver.held
	if h.frames > 0 {
		l.rations.frames.give(h.frames)
	}
	if h.delivered > 0 {
		l.rations.delivered.give(h.delivered)
	}
	*h = held{}
}

// afford takes what a request needs, and gives what gives it back.
func (l *Link) afford(weight int) (done func(), err error) {
	if l.rations == nil || weight <= shortBytes {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, rationPatience, errRationed)
	defer cancel()
	if err := l.rations.requests.take(ctx, weight); err != nil {
		return nil, err
	}
	return func() { l.rations.requests.give(weight) }, nil
}

// reply encodes an answer and sends it. Only one of a link is on its way to the outbox at a time; a
// long one is made when there is memory for it, and counts until it is written.
func (l *Link) reply(encode func() []byte) {
	select {
	case l.pen <- struct{}{}:
		defer func() { <-l.pen }()
	case <-l.Done():
		return // an answer that can't be sent any more is nobody's
	}
	frame := l.encoded(encode)
	bytes := len(frame)
	if l.rations == nil || bytes <= shortBytes {
		_ = l.out.put(l.ctx, frame)
		return
	}
	if later := l.rations.answers.tryTake(bytes); later != nil {
		frame = nil // it would be one more in memory: it is made again
		if l.rations.answers.take(l.ctx, bytes) != nil {
			return
		}
		frame = l.encoded(encode)
	}
	defer l.rations.answers.give(bytes)
	if end, err := l.out.send(l.ctx, frame); err == nil {
		l.out.await(l.ctx, end)
	}
}

func (l *Link) encoded(encode func() []byte) []byte {
	defer l.rations.pen()()
	return encode()
}
