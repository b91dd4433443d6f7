package wire

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Outbox holds messages on their way, so that the sender never waits for a slow reader. A message
// is encoded only when the socket takes it. What waits is a few messages for each job under way;
// nothing else bounds it.
//
// The worker posts: the outbox's goroutine writes, and what many post meanwhile goes out in one
// write. The runner sends and then flushes, which writes without waiting; the goroutine takes over
// only while the socket is full.
type Outbox struct {
	conn    *net.UnixConn
	raw     syscall.RawConn
	wake    chan struct{} // the goroutine has something to do
	written chan struct{} // closed when the goroutine has returned

	mu       sync.Mutex
	messages []Message
	buffer   []byte   // encoded messages
	segments [][]byte // written before the next message is encoded: parts of buffer, and outputs
	writing  bool     // the goroutine writes, or is about to
	closed   bool
	dead     bool // nothing can be written any more
}

// NewOutbox makes an outbox and starts its goroutine, which Close ends.
func NewOutbox(conn *net.UnixConn) (*Outbox, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &Outbox{conn: conn, raw: raw, wake: make(chan struct{}, 1), written: make(chan struct{})}
	go o.write()
	return o, nil
}

// Send puts a message behind the others.
func (o *Outbox) Send(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead {
		o.messages = append(o.messages, m)
	}
}

// Post sends a message and wakes the goroutine.
func (o *Outbox) Post(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return
	}
	o.messages = append(o.messages, m)
	if !o.writing {
		o.wakeWriter()
	}
}

// wakeWriter leaves the writing to the goroutine. Callers must hold o.mu.
func (o *Outbox) wakeWriter() {
	o.writing = true
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close lets the goroutine return once it has written what there is.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wakeWriter()
}

// Written is closed when the goroutine has returned after Close.
func (o *Outbox) Written() <-chan struct{} { return o.written }

// Length is how many messages wait.
func (o *Outbox) Length() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages)
}

// Flush writes what there is, as far as the socket takes it now.
func (o *Outbox) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.writing && o.fill() {
		n, err := o.try(o.segments[0])
		o.consume(n)
		switch {
		case errors.Is(err, unix.EAGAIN):
			o.wakeWriter()
		case err != nil:
			o.abandon(err)
		}
	}
}

// try writes without waiting.
func (o *Outbox) try(b []byte) (n int, err error) {
	ctlErr := o.raw.Write(func(fd uintptr) bool {
		for {
			if n, err = unix.Write(int(fd), b); err != unix.EINTR {
				return true
			}
		}
	})
	return max(n, 0), errors.Join(ctlErr, err)
}

// write is the goroutine: it writes, whenever it is woken, until the outbox is closed.
func (o *Outbox) write() {
	defer close(o.written)
	for range o.wake {
		if o.drain() {
			return
		}
	}
}

// drain writes what there is, and tells whether the outbox is closed.
func (o *Outbox) drain() (closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.fill() {
		segment := o.segments[0]
		o.mu.Unlock()
		n, err := o.conn.Write(segment)
		o.mu.Lock()
		o.consume(n)
		if err != nil {
			o.abandon(err)
		}
	}
	o.writing = o.closed
	return o.closed
}

// chunk is about how many bytes are encoded at a time.
const chunk = 64 << 10

// fill encodes the next messages unless something is left to be written, and tells whether there is
// anything to write. Callers must hold o.mu.
func (o *Outbox) fill() bool {
	if len(o.segments) > 0 {
		return true
	}
	if cap(o.buffer) > 4*chunk {
		o.buffer = nil
	}
	o.buffer = o.buffer[:0]
	encoded := 0
	var large [][]byte
	for encoded < len(o.messages) && len(o.buffer) < chunk && large == nil {
		large = o.encode(&o.messages[encoded])
		encoded++
	}
	clear(o.messages[:encoded])
	switch {
	case encoded < len(o.messages):
		o.messages = o.messages[encoded:]
	case encoded > mostBatch:
		o.messages = nil
	default:
		o.messages = o.messages[:0]
	}
	if encoded > 0 {
		o.segments = append(append(o.segments, o.buffer), large...)
	}
	return encoded > 0
}

// encode appends a message to the buffer, with its output if that is small, and returns the output
// if it is large.
func (o *Outbox) encode(m *Message) (large [][]byte) {
	o.buffer = m.encode(o.buffer)
	if m.Later {
		return nil
	}
	for _, kept := range [][]byte{m.Done.Stdout.Kept, m.Done.Stderr.Kept} {
		switch {
		case len(kept) > chunk/4 || large != nil && len(kept) > 0:
			large = append(large, kept)
		default:
			o.buffer = append(o.buffer, kept...)
		}
	}
	return large
}

// consume drops what was written. Callers must hold o.mu.
func (o *Outbox) consume(n int) {
	if o.segments[0] = o.segments[0][n:]; len(o.segments[0]) == 0 {
		o.segments[0] = nil
		o.segments = o.segments[1:]
	}
	if len(o.segments) == 0 {
		o.segments = nil
	}
}

// abandon drops everything. If the peer is gone, reading goes on to the end of what it had sent;
// another error ends the connection. Callers must hold o.mu.
func (o *Outbox) abandon(err error) {
	o.dead, o.messages, o.segments = true, nil, nil
	if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		o.conn.Close()
	}
}
