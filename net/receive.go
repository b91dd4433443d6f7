package net

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
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

// How long a frame may be while the peer owes us an answer: we asked for it, and what came of many jobs
// is long. A server, whose peers chose it, takes less.
const (
	answerLimit       = 256 << 20
	serverAnswerLimit = 64 << 20
)

func (l *Link) frameLimit() int {
	switch {
	case l.entry.needed():
		return min(unprovenLimit, l.config.MaxMessageSize)
	case l.asks():
		return max(l.config.answerLimit, l.config.MaxMessageSize)
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
		if len(m.data) > shortBytes {
			l.receiver.in.handOver()
		} else {
			m.data = bytes.Clone(m.data)
		}
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

// receiver is what a link knows of the bytes that come in.
type receiver struct {
	in         splitter
	begun      time.Time // when the frame that is not complete began; zero where there is none
	deadline   time.Time // set on the connection
	held       held
	recognised bool   // the peer speaks this protocol
	looked     int    // bytes of its first frame that were looked at for that
	complaint  string // what the peer last said that belongs to no request
}

// lingering is how long a peer that breaks a rule is given to read why, and the answers to what it
// asked before.
const lingering = 2 * time.Second

// dismissal ends a link whose peer broke a rule, and was told so.
type dismissal struct{ text string }

func (d *dismissal) Error() string { return "peer dismissed: " + d.text }

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

// discard reads on without looking for a while: closing with bytes unread would reset the
// connection, and the peer might lose what it was told.
func (l *Link) discard() {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.Copy(io.Discard, l.conn)
}

// dismissForMemory tells a peer that there is no memory for what it sends.
func (l *Link) dismissForMemory(err error) error {
	if errors.Is(err, errNoMemory) {
		return l.dismissUnasked(err.Error())
	}
	return err
}

// Whole is a whole number on the wire. JavaScript's numbers are exact up to 2⁵³−1 in either
// direction; a number beyond that is a string of its decimal digits, in both directions, so that no
// peer rounds it.
type Whole int64

// isExact tells whether a JavaScript number holds n, and no other whole number rounds to it.
func (n Whole) isExact() bool { return -maxSafe <= n && n <= maxSafe }

// MarshalJSON implements json.Marshaler.
func (n Whole) MarshalJSON() ([]byte, error) {
	text := strconv.FormatInt(int64(n), 10)
	if n.isExact() {
		return []byte(text), nil
	}
	return []byte(`"` + text + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Whole) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil // as of any number
	}
	number, err := ParseWhole(data)
	*n = number
	return err
}

// ParseWhole reads a whole number that a peer sent. Its error is a Refusal that says what is
// allowed.
func ParseWhole(value json.RawMessage) (Whole, error) {
	if number, ok := Integer(value); ok {
		return Whole(number), nil
	}
	var text string
	if TypeOf(value) == "string" && json.Unmarshal(value, &text) == nil {
		number, err := strconv.ParseInt(text, 10, 64)
		if err == nil && strconv.FormatInt(number, 10) == text && !Whole(number).isExact() {
			return Whole(number), nil
		}
	}
	return 0, Refusef("%s is no whole number of 64 bits; allowed are numbers up to ±%d, and decimal strings beyond",
		shortened(value), int64(math.Trunc(maxSafe)))
}

// shortened is a peer's value in a length that fits into an error.
func shortened(value json.RawMessage) string {
	const most = 40
	text := strings.ToValidUTF8(string(value), "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
