package net

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// lingering is how long a peer that breaks a rule is given to read why, and the answers to what it
// asked before.
const lingering = 2 * time.Second

// unprovenLimit is the longest frame in bytes that a peer may send before it gave the password.
const unprovenLimit = 64 << 10

// receiver is what a link knows of the bytes that come in.
type receiver struct {
	in         splitter
	begun      time.Time // when the frame that is not complete began; zero where there is none
	deadline   time.Time // set on the connection
	nonsense   nonsense
	held       held
	recognised bool   // the peer speaks this protocol
	looked     int    // bytes of its first frame that were looked at for that
	complaint  string // what the peer last said that belongs to no request
}

// dismissal ends a link whose peer broke a rule, and was told so.
type dismissal struct{ text string }

func (d *dismissal) Error() string { return "peer dismissed: " + d.text }

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

// hasAsked tells whether we ever sent the peer a request.
func (l *Link) hasAsked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls != nil
}

// asks tells whether a request of ours waits for its response.
func (l *Link) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
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
			return l.dismissRationed(err)
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
	m, err := l.parse(frame)
	switch {
	case errors.Is(err, errNotJSON):
		l.log.Warn("received a frame that is not JSON", "bytes", len(frame))
		return l.endure()
	case err != nil:
		if err := l.out.put(l.ctx, encodeError(0, err.Error())); err != nil {
			return err
		}
		return l.endure()
	}
	switch m.kind {
	case kindRequest:
		return l.serve(m)
	case kindResponse:
		return l.answered(m)
	case kindPing:
		return l.out.pong(l.ctx)
	case kindPong:
		l.ponged()
	}
	return nil
}

// answered gives a response to the request that waits for it. From a peer that was never asked it
// is nonsense; else it may be the late answer to a request that nobody waits for any more.
func (l *Link) answered(m message) error {
	l.mu.Lock()
	asked, waiting := l.calls != nil, l.calls[m.no]
	delete(l.calls, m.no)
	if waiting != nil && !m.failed {
		l.password = "" // it has proven itself
	}
	l.mu.Unlock()
	if waiting != nil {
		waiting <- m // has room for one
		return nil
	}
	if m.failed && !l.entry.needed() { // nothing is logged of what a peer says before it gave the password
		l.receiver.complaint = Excerpt(m.failure)
		l.log.Warn("peer reports an error", "error", l.receiver.complaint)
	}
	if asked {
		return nil
	}
	return l.endure()
}

// turnAway answers a request without the right password. Nothing is read meanwhile.
func (l *Link) turnAway(m message, delay time.Duration) error {
	l.log.Warn("wrong password")
	select {
	case <-time.After(delay):
	case <-l.Done():
		return l.Err()
	}
	return l.dismiss(m.refused(refusedPassword), string(refusedPassword))
}

// dismissUnasked tells the peer why the link ends, where that belongs to none of its requests.
func (l *Link) dismissUnasked(text string) error { return l.dismiss(encodeError(0, text), text) }

// dismiss sends the peer the frame that tells why the link ends, after the answers to what it asked
// before.
func (l *Link) dismiss(frame []byte, text string) error {
	ctx, cancel := context.WithTimeout(l.ctx, lingering)
	defer cancel()
	l.finishRequests(ctx)
	if err := l.out.put(l.ctx, frame); err != nil {
		return err
	}
	return &dismissal{text: text}
}

// part ends the link after receive did: at once where it broke, else when what is still to be said
// was said.
func (l *Link) part(cause error) {
	ctx, cancel := context.WithTimeout(l.ctx, lingering)
	defer cancel()
	var dismissed *dismissal
	switch {
	case errors.Is(cause, errForeign):
		l.log.Warn("connection closed: its peer speaks another protocol")
	case errors.As(cause, &dismissed):
		_ = l.out.flush(ctx)
		l.discard()
	case errors.Is(cause, io.EOF):
		cause = errors.New("peer closed the link")
		if complaint := l.receiver.complaint; complaint != "" {
			cause = fmt.Errorf("%w, saying: %s", cause, complaint)
		}
		// Who was asked something must be able to answer: of such a peer nothing can be heard any
		// more.
		if tcp, ok := l.conn.(*net.TCPConn); ok && !l.hasAsked() {
			l.hearOut(tcp)
		}
	}
	l.end(cause)
}

// finishRequests waits for the requests under way, and until all answers are written. It must be
// the last that the reading goroutine does with requests: it takes all slots.
func (l *Link) finishRequests(ctx context.Context) {
	for range cap(l.slots) {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	_ = l.out.flush(ctx)
}

// discard reads on without looking for a while: closing with bytes unread would reset the
// connection, and the peer might lose what it was told.
func (l *Link) discard() {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.Copy(io.Discard, l.conn)
}
