package net

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// What all links of a server together may take of the memory. What is short does not count, so that
// who asks little is never kept waiting by those who ask much: a link has up to shortBytes of each
// kind for itself, its frame, its request and its answers.
const (
	shortBytes     = 64 << 10
	askedBytes     = 128 << 20 // what peers ask: frames that come in, requests as their handlers read them
	answersBytes   = 128 << 20 // answers that leave; they never wait for what is asked, which may wait for them
	deliveredBytes = 64 << 20  // answers to our own requests, beyond the length of a request
	tidyBytes      = 8 << 20   // what was so long and is gone is given back to the system
	tidyAfter      = 10 * time.Second
	encodedAtOnce  = 4 // more would be no faster, and each takes several times the length of its answer
	memoryPatience = 5 * time.Second
)

// errNoMemory ends a link that waited too long for memory which others take.
var errNoMemory = errors.New("too much is asked at once: try again")

// memory is what the links of one server share. Nil bounds nothing: that of a link that we made
// ourselves.
type memory struct {
	asked, answers, delivered bound
	encoders                  chan struct{} // one for each answer that is being encoded
	tidying                   atomic.Bool
}

// tidy gives memory back that something long has taken: the runtime itself may keep it for minutes.
func (m *memory) tidy(bytes int) {
	if bytes > tidyBytes && m.tidying.CompareAndSwap(false, true) {
		time.AfterFunc(tidyAfter, func() {
			m.tidying.Store(false)
			debug.FreeOSMemory()
		})
	}
}

func newMemory(maxMessage int) *memory {
	return &memory{
		asked:     bound{limit: max(askedBytes, 2*maxMessage)},
		answers:   bound{limit: answersBytes},
		delivered: bound{limit: deliveredBytes},
		encoders:  make(chan struct{}, encodedAtOnce),
	}
}

// hold takes what a buffer of so many bytes for the next frame needs beyond what is held already.
func (l *Link) hold(buffer int) error {
	if l.memory == nil || buffer <= shortBytes {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, memoryPatience, errNoMemory)
	defer cancel()
	h := &l.receiver.held
	asked := min(buffer, l.config.MaxMessageSize)
	if err := l.memory.asked.take(ctx, asked-h.asked); err != nil {
		return err
	}
	h.asked = asked
	if delivered := buffer - asked; delivered > h.delivered {
		if err := l.memory.delivered.take(ctx, delivered-h.delivered); err != nil {
			return err
		}
		h.delivered = delivered
	}
	return nil
}

// held is what a link has taken for the frame that it receives.
type held struct{ asked, delivered int }

// release gives back what was held.
func (l *Link) release() {
	if h := &l.receiver.held; *h != (held{}) {
		l.memory.asked.give(h.asked)
		l.memory.delivered.give(h.delivered)
		l.memory.tidy(h.asked + h.delivered)
		*h = held{}
	}
}

// takeFor takes what a request needs, and gives what gives it back.
func (l *Link) takeFor(weight int) (done func(), err error) {
	if l.memory == nil || weight <= shortBytes {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, memoryPatience, errNoMemory)
	defer cancel()
	if err := l.memory.asked.take(ctx, weight); err != nil {
		return nil, err
	}
	return func() { l.memory.asked.give(weight) }, nil
}

// reply encodes an answer and sends it. Only one of a link is on its way to the outbox at a time; a
// long one is made when there is memory for it, and counts until it is written.
func (l *Link) reply(encode func() [][]byte) {
	select {
	case l.replying <- struct{}{}:
		defer func() { <-l.replying }()
	case <-l.Done():
		return // an answer that can't be sent any more is nobody's
	}
	frame := l.encoded(encode)
	bytes := 0
	for _, part := range frame {
		bytes += len(part)
	}
	if l.memory == nil || bytes <= shortBytes {
		_, _ = l.out.send(l.ctx, frame...)
		return
	}
	if later := l.memory.answers.tryTake(bytes); later != nil {
		frame = nil // it would be one more in memory: it is made again
		if l.memory.answers.take(l.ctx, bytes) != nil {
			return
		}
		frame = l.encoded(encode)
	}
	defer l.memory.tidy(bytes)
	defer l.memory.answers.give(bytes)
	if end, err := l.out.send(l.ctx, frame...); err == nil {
		l.out.await(l.ctx, end)
	}
}

func (l *Link) encoded(encode func() [][]byte) [][]byte {
	if l.memory != nil {
		l.memory.encoders <- struct{}{}
		defer func() { <-l.memory.encoders }()
	}
	return encode()
}

// bound is an amount of memory that links share. It is safe for concurrent use.
type bound struct {
	limit int // bytes

	mu    sync.Mutex
	taken int
	freed chan struct{} // closed when some is given back; nil while nobody waits
}

// take waits until there is so much to be had. One taker may always have what it wants, however
// much that is.
func (b *bound) take(ctx context.Context, bytes int) error {
	for {
		freed := b.tryTake(bytes)
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
func (b *bound) tryTake(bytes int) (later <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken == 0 || b.taken+bytes <= b.limit {
		b.taken += bytes
		return nil
	}
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// give gives back.
func (b *bound) give(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= bytes
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}
