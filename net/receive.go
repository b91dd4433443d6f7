package net

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// unprovenLimit is the longest frame in bytes that a peer may send before it gave the password.
const unprovenLimit = 64 << 10

// Run receives what the peer sends, and serves its requests, until the link ends or ctx does. It
// returns why the link ended, never nil, when all its goroutines have; a link is run once.
func (l *Link) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { l.end(ctx.Err()) })()
	reason := l.receive()
	l.release()
	l.part(reason)
	l.tasks.Wait()
	return l.Err()
}

// receive handles frame after frame.
func (l *Link) receive() error {
	for {
		frame, err := l.receiver.in.next(l.frameLimit())
		switch {
		case err != nil:
			err = l.dismissUnasked(fmt.Sprintf("message too long: at most %d bytes are allowed", l.frameLimit()))
		case frame == nil:
			if err = l.receiver.recognise(l.receiver.in.pending(), false); err == nil {
				err = l.read()
			}
		default:
			l.receiver.begun = time.Time{}
			if err = l.receiver.recognise(frame, true); err == nil {
				err = l.handle(frame)
			}
		}
		if err != nil {
			return err
		}
	}
}

// answerLimit is how long a frame may be while the peer owes us an answer: we asked for
// it, and what came of many jobs is long.
const answerLimit = 256 << 20

func (l *Link) frameLimit() int {
	switch {
	case l.entry.needed():
		return min(unprovenLimit, l.config.MaxMessageSize)
	case l.asks():
		return max(answerLimit, l.config.MaxMessageSize)
	}
	return l.config.MaxMessageSize
}

// read waits for more bytes; only so long while a frame is begun or the password is to come.
func (l *Link) read() error {
	r := &l.receiver
	if r.in.begun() && r.begun.IsZero() {
		r.begun = time.Now()
	}
	deadline, reason := l.readDeadline()
	if !deadline.Equal(r.deadline) {
		r.deadline = deadline
		if err := l.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	if r.in.begun() {
		if err := l.hold(r.in.grown()); err != nil {
			return l.dismissForMemory(err)
		}
	} else {
		l.release()
	}
	err := r.in.fill(l.conn)
	switch {
	case err == nil:
		l.reads.Add(1)
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return l.dismissUnasked(reason)
	}
	return err
}

// readDeadline is when to lose patience (zero: never), and what to tell the peer then.
func (l *Link) readDeadline() (deadline time.Time, reason string) {
	if l.entry.needed() {
		deadline, reason = l.entry.deadline, "no password came in time"
	}
	if begun := l.receiver.begun; !begun.IsZero() {
		end := begun.Add(l.config.FrameTimeout)
		if deadline.IsZero() || end.Before(deadline) {
			deadline, reason = end, fmt.Sprintf("message not complete within %v", l.config.FrameTimeout)
		}
	}
	return deadline, reason
}

// handle does what one frame asks for. An error ends the link.
func (l *Link) handle(frame []byte) error {
	m, err := parse(frame)
	switch {
	case errors.Is(err, errNotJSON):
		l.log.Warn("received a frame that is not JSON", "bytes", len(frame))
		return nil
	case err != nil:
		return l.out.put(l.ctx, encodeError(0, err.Error()))
	}
	switch m.kind {
	case kindRequest:
		return l.serve(m)
	case kindResponse:
		l.answered(m)
	case kindPing:
		return l.out.pong(l.ctx)
	case kindPong:
		l.ponged()
	}
	return nil
}

// answered gives a response to the request that waits for it.
func (l *Link) answered(m message) {
	l.mu.Lock()
	waiting := l.calls[m.no]
	delete(l.calls, m.no)
	if waiting != nil && !m.failed {
		l.password = "" // it has proven itself
	}
	l.mu.Unlock()
	if waiting != nil {
		waiting <- m // has room for one
		return
	}
	if m.failed && !l.entry.needed() { // nothing is logged of what a peer says before it gave the password
		l.receiver.complaint = Excerpt(m.failure)
		l.log.Warn("peer reports an error", "error", l.receiver.complaint)
	}
}
