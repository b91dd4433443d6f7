package net

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// What all links of a server together may take of the memory. What is short does not count, so that a
// peer that asks little never waits for those that ask much: a link has up to shortBytes of each kind
// for itself, its frame, its request and its answer.
const (
	shortBytes     = 64 << 10
	receivedBytes  = 192 << 20 // frames that come in, requests as their handlers read them
	answersBytes   = 128 << 20 // answers that leave; they never wait for what is asked, which may wait for them
	tidyBytes      = 8 << 20   // what was so long and is gone is given back to the system
	tidyAfter      = 10 * time.Second
	encodedAtOnce  = 4 // more would be no faster, and each takes several times the length of its answer
	memoryPatience = 5 * time.Second
)

// memory is what the links of one server share. Nil bounds nothing: that of a link that we made
// ourselves.
type memory struct {
	received, answers *semaphore.Weighted
	encoders          chan struct{} // one for each answer that is being encoded
	tidying           atomic.Bool
}

func newMemory() *memory {
	return &memory{
		received: semaphore.NewWeighted(receivedBytes),
		answers:  semaphore.NewWeighted(answersBytes),
		encoders: make(chan struct{}, encodedAtOnce),
	}
}

// tidy gives memory back that something long has taken: the runtime itself may keep it for minutes.
func (m *memory) tidy(bytes int64) {
	if bytes > tidyBytes && m.tidying.CompareAndSwap(false, true) {
		time.AfterFunc(tidyAfter, func() {
			m.tidying.Store(false)
			debug.FreeOSMemory()
		})
	}
}

// hold has the link hold as much of the server's memory as so many bytes need that it has received,
// more or less than before. One link may hold all, however much it wants. A peer is dismissed for
// which there is none in time.
func (l *Link) hold(bytes int) error {
	if l.memory == nil {
		return nil
	}
	if bytes <= shortBytes {
		bytes = 0
	}
	more := min(int64(bytes), receivedBytes) - l.held
	switch {
	case more > 0:
		ctx, cancel := context.WithTimeout(l.ctx, memoryPatience)
		defer cancel()
		if l.memory.received.Acquire(ctx, more) != nil {
			return l.dismissUnasked("too much is asked at once: try again")
		}
	case more < 0:
		l.memory.received.Release(-more)
		l.memory.tidy(-more)
	}
	l.held += more
	return nil
}

// holdFor turns what is held for a frame into what its request needs, and gives what gives it back.
func (l *Link) holdFor(weight int) (done func(), err error) {
	err = l.hold(weight)
	held := l.held
	if err != nil || held == 0 {
		return func() {}, err
	}
	l.held = 0
	return func() { l.memory.received.Release(held) }, nil
}

// reply encodes an answer and sends it. Only one of a link is on its way at a time; a long one is
// made when there is memory for it, and counts until it is written.
func (l *Link) reply(encode func() [][]byte) {
	select {
	case l.replying <- struct{}{}:
		defer func() { <-l.replying }()
	case <-l.Done():
		return // an answer that can't be sent any more is nobody's
	}
	frame := l.encoded(encode)
	if bytes := min(int64(length(frame)), answersBytes); l.memory != nil && bytes > shortBytes {
		if !l.memory.answers.TryAcquire(bytes) {
			frame = nil // it would be one more in memory: it is made again
			if l.memory.answers.Acquire(l.ctx, bytes) != nil {
				return
			}
			frame = l.encoded(encode)
		}
		defer l.memory.tidy(bytes)
		defer l.memory.answers.Release(bytes)
	}
	_ = l.send(l.ctx, frame...) // where it fails, the link has ended
}

func (l *Link) encoded(encode func() [][]byte) [][]byte {
	if l.memory != nil {
		l.memory.encoders <- struct{}{}
		defer func() { <-l.memory.encoders }()
	}
	return encode()
}
