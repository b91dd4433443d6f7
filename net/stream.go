package net

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

// The bytes of a link: how frames come in, and what a peer may send; how they leave.

// endOfFrame ends every frame. JSON text never holds it: inside strings it is escaped.
const endOfFrame = 0x04

// The read buffer of a link begins with smallBuffer bytes; one of more than keptBuffer is not kept
// by a link that has nothing to say.
const (
	smallBuffer = 512
	keptBuffer  = 4 << 10
)

// errFrameTooLong ends a link: the stream can't be read on from the middle of a frame.
var errFrameTooLong = errors.New("frame too long")

// splitter cuts the bytes of a connection into frames. The zero value is ready.
type splitter struct {
	buf     []byte // was read and not handed out yet
	scanned int    // there is no endOfFrame in buf[:scanned]
}

// next is the next whole frame without its end, or nil when more must be read first. The frame is
// the caller's. One, whole or begun, of more than limit bytes is errFrameTooLong.
func (s *splitter) next(limit int) ([]byte, error) {
	at := bytes.IndexByte(s.buf[s.scanned:], endOfFrame)
	size := len(s.buf)
	if at >= 0 {
		size = s.scanned + at
	}
	if size > limit {
		return nil, errFrameTooLong
	}
	if at < 0 {
		s.scanned = size
		return nil, nil
	}
	frame := s.buf[:size:size]
	s.buf, s.scanned = s.buf[size+1:], 0
	if size > shortBytes {
		s.buf = bytes.Clone(s.buf) // the frame alone keeps its memory
	}
	return frame, nil
}

// room is how long the buffer is for the next fill.
func (s *splitter) room() int {
	switch {
	case len(s.buf) == 0 && (cap(s.buf) < smallBuffer || cap(s.buf) > keptBuffer):
		return smallBuffer
	case cap(s.buf)-len(s.buf) < smallBuffer/4:
		return max(smallBuffer, 2*len(s.buf))
	}
	return cap(s.buf)
}

// fill reads once. It must be called only after next had nothing more to give.
func (s *splitter) fill(r io.Reader) error {
	if room := s.room(); room != cap(s.buf) {
		s.buf = append(make([]byte, 0, room), s.buf...)
	}
	n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// What a peer may send before it gave the password: the longest frame, which may bring that, and all
// frames that do not, pings and such, in bytes. With sixteen times of those, two peers that connected
// again and again had everybody else wait for two seconds.
const (
	unprovenLimit = 64 << 10
	unprovenBytes = 4 << 10
)

// How long a frame may be while the peer owes us an answer: we asked for it, and what came of many jobs
// is long. A server, whose peers chose it, takes less.
const (
	answerLimit       = 256 << 20
	serverAnswerLimit = 64 << 20
)

// receiver is what a link knows of the bytes that come in.
type receiver struct {
	in         splitter
	begun      time.Time // when the frame that is not complete began; zero where there is none
	recognised bool      // the peer speaks this protocol
	blank      int       // bytes of the buffer that are known to be blank, while nothing was recognised
	complaint  string    // what the peer last said that belongs to no request
	unproven   int       // bytes of the frames that came before the password
}

// Run receives what the peer sends, and serves its requests, until the link ends or ctx does. It
// returns why the link ended, never nil, when all its goroutines have; a link is run once.
func (l *Link) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { l.end(ctx.Err()) })()
	l.tasks.Go(l.write)
	reason := l.receive()
	_ = l.hold(0)
	l.part(reason)
	l.tasks.Wait()
	for _, stop := range l.used { // until then requests may be under way, also of a peer that says no more
		stop()
	}
	return l.Err()
}

// receive handles frame after frame.
func (l *Link) receive() error {
	r := &l.receiver
	for {
		frame, err := r.in.next(l.frameLimit())
		switch {
		case err != nil:
			return l.dismissUnasked(fmt.Sprintf("message too long: at most %d bytes are allowed", l.frameLimit()))
		case r.isForeign(frame) || r.isForeign(r.in.buf):
			return errForeign
		case l.secured != nil && l.secured.refused():
			return l.dismissUnasked(PlainRefused)
		case frame == nil:
			r.blank = len(r.in.buf)
			err = l.read()
		default:
			r.begun, r.blank = time.Time{}, 0
			err = l.handle(frame)
			r.unproven += len(frame) + 1
		}
		switch {
		case err != nil:
			return err
		case l.needsPassword() && r.unproven > unprovenBytes:
			return l.dismissUnasked(fmt.Sprintf("no password came within %d bytes", unprovenBytes))
		}
	}
}

func (l *Link) frameLimit() int {
	switch {
	case l.needsPassword():
		return min(unprovenLimit, l.config.MaxMessageSize)
	case l.asks():
		return max(l.config.answerLimit, l.config.MaxMessageSize)
	}
	return l.config.MaxMessageSize
}

// errForeign ends a link whose peer speaks some other protocol. A browser can be led to send a
// request of HTTP to any port, and puts what it is told into the body: nothing of that is run.
var errForeign = errors.New("peer speaks another protocol")

// isForeign tells whether the peer's first words can't begin a JSON value. What is blank says
// nothing.
func (r *receiver) isForeign(said []byte) bool {
	if r.recognised {
		return false
	}
	said = bytes.TrimLeft(said[min(r.blank, len(said)):], " \t\r\n")
	if len(said) == 0 {
		return false
	}
	r.recognised = bytes.IndexByte([]byte(`[{"-0123456789tfn`), said[0]) >= 0
	return !r.recognised
}

// read waits for more bytes; no longer than the deadline while a frame is begun, or the password has
// not come.
func (l *Link) read() error {
	r := &l.receiver
	if len(r.in.buf) > 0 && r.begun.IsZero() {
		r.begun = time.Now()
	}
	deadline, reason := l.readDeadline()
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	if err := l.hold(r.in.room()); err != nil {
		return err
	}
	err := r.in.fill(l.conn)
	switch {
	case err == nil:
		l.reads.Add(1)
		return nil
	case errors.Is(err, errHandshake) && l.Err() == nil: // else it was us who closed it
		l.log.Warn("connection closed", "error", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return l.dismissUnasked(reason)
	}
	return err
}

// readDeadline is when to lose patience (zero: never), and what to tell the peer then.
func (l *Link) readDeadline() (deadline time.Time, reason string) {
	if l.needsPassword() {
		deadline, reason = l.deadline, "no password came in time"
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
		return l.say(encodeError(0, err.Error(), ""))
	}
	switch m.kind {
	case kindRequest:
		return l.serve(m)
	case kindResponse:
		if len(m.data) <= shortBytes {
			m.data = bytes.Clone(m.data) // else it keeps the whole buffer
		}
		l.answered(m)
	case kindPing:
		return l.say(pongFrame)
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
	if m.failed && !l.needsPassword() { // nothing is logged of what a peer says before it gave the password
		l.receiver.complaint = Excerpt(m.failure)
		l.log.Warn("peer reports an error", "error", l.receiver.complaint)
	}
}

// lingering is how long a peer that breaks a rule is given to read why, and the answers to what it
// asked before.
const lingering = 2 * time.Second

// dismissal ends a link whose peer broke a rule, and was told so.
type dismissal struct{ text string }

func (d *dismissal) Error() string { return "peer dismissed: " + d.text }

// dismissUnasked tells the peer why the link ends, where that belongs to none of its requests.
func (l *Link) dismissUnasked(text string) error { return l.dismiss(encodeError(0, text, ""), text) }

// dismiss sends the peer the frame that tells why the link ends, after the answers to what it asked
// before.
func (l *Link) dismiss(frame []byte, text string) error {
	ctx, cancel := context.WithTimeout(l.ctx, lingering)
	defer cancel()
	_ = l.finishRequests(ctx)
	if err := l.say(frame); err != nil {
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
		_ = l.send(ctx)
		l.discard()
	case errors.Is(cause, io.EOF):
		cause = errors.New("peer closed the link")
		if complaint := l.receiver.complaint; complaint != "" {
			cause = fmt.Errorf("%w, saying: %s", cause, complaint)
		}
		// A peer that was asked something must be able to answer: from this one nothing can come any
		// more.
		if _, ok := carrierOf(l.conn).(syscall.Conn); ok && !l.hasAsked() {
			l.hearOut()
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

// pieceBytes is what a peer must take within writeTimeout: a long frame leaves in pieces, so that it
// gets through to a peer that is slow and alive. A shorter one leaves in one write.
const pieceBytes = 64 << 10

// mostQueued is how many frames may wait for the writer before senders do. Answers don't queue up:
// one of a link is on its way at a time.
const mostQueued = 64

// outgoing is a frame for the goroutine that writes.
type outgoing struct {
	parts [][]byte
	taken chan struct{} // closed when the connection has taken all of the frame
}

// queue gives a frame, which nobody may change any more, to the writer. After an error nothing of it
// leaves. Where there is room for it, it is queued even if ctx has ended.
func (l *Link) queue(ctx context.Context, frame *outgoing) error {
	frame.taken = make(chan struct{})
	if err := l.Err(); err != nil {
		return err
	}
	select {
	case l.frames <- frame:
		return nil
	default:
	}
	select {
	case l.frames <- frame:
		return nil
	case <-l.Done():
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is a context for what is not waited for: it has ended.
var now = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// send queues a frame and waits until the connection has taken it. Without any parts it waits for
// what was queued before.
func (l *Link) send(ctx context.Context, parts ...[]byte) error {
	frame := &outgoing{parts: parts}
	if err := l.queue(ctx, frame); err != nil {
		return err
	}
	select {
	case <-frame.taken:
		return nil
	case <-l.Done():
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// say queues a frame that answers a ping, or what can't be served. A peer that sends such things and
// reads no answers is not read on.
func (l *Link) say(frame []byte) error {
	return l.queue(l.ctx, &outgoing{parts: [][]byte{frame}})
}

// write writes what is queued until the link ends.
func (l *Link) write() {
	defer close(l.wrote)
	for {
		select {
		case frame := <-l.frames:
			l.writeFrame(frame)
		case <-l.Done():
			return
		}
	}
}

func (l *Link) writeFrame(frame *outgoing) {
	parts := frame.parts
	if len(parts) > 1 && length(parts) <= pieceBytes {
		parts = [][]byte{bytes.Join(parts, nil)}
	}
	for _, part := range parts {
		for piece := range slices.Chunk(part, pieceBytes) {
			if !l.writeBytes(piece) {
				return
			}
		}
	}
	close(frame.taken)
}

// writeBytes writes within the timeout, or ends the link.
func (l *Link) writeBytes(piece []byte) bool {
	err := l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = l.conn.Write(piece)
	}
	if err != nil {
		l.end(err)
	}
	return err == nil
}

func length(parts [][]byte) (bytes int) {
	for _, part := range parts {
		bytes += len(part)
	}
	return bytes
}
