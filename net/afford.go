package net

import (
	"context"
	"time"
)

// parse is parse, leaving a processor free for short frames.
func (l *Link) parse(frame []byte) (message, error) {
	if l.rations != nil && len(frame) > shortBytes {
		l.rations.eyes <- struct{}{}
		defer func() { <-l.rations.eyes }()
	}
	return parse(frame)
}

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

// endure lets the peer wait where it sends too much nonsense.
func (l *Link) endure() error {
	due := l.receiver.nonsense.due(time.Now())
	if due == 0 {
		return nil
	}
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.Done():
		return l.Err()
	}
}
