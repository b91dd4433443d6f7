package wire

import (
	"errors"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Outbox holds messages on their way, so that a sender never waits for a slow reader. Its goroutine
// writes them, and what many post meanwhile goes out in one write. A message is encoded only when the
// socket takes it. What waits is a few messages for each job under way; nothing else bounds it.
type Outbox struct {
	conn    *net.UnixConn
	wake    chan struct{} // the goroutine has something to do
	written chan struct{} // closed when the goroutine has returned

	mu       sync.Mutex
	messages []Message
	closed   bool
	dead     bool // nothing can be written any more
}

// NewOutbox makes an outbox and starts its goroutine, which Close ends.
func NewOutbox(conn *net.UnixConn) *Outbox {
	o := &Outbox{conn: conn, wake: make(chan struct{}, 1), written: make(chan struct{})}
	go o.write()
	return o
}

// Post puts a message behind the others.
func (o *Outbox) Post(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead {
		o.messages = append(o.messages, m)
		o.ring()
	}
}

// ring wakes the goroutine.
func (o *Outbox) ring() {
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
	o.ring()
}

// Written is closed when the goroutine has returned after Close.
func (o *Outbox) Written() <-chan struct{} { return o.written }

// chunk is about how many bytes are written at a time, mostKept how many messages room is kept for.
const (
	chunk    = 64 << 10
	mostKept = 256
)

// write is the goroutine.
func (o *Outbox) write() {
	defer close(o.written)
	var buffer []byte
	for range o.wake {
		for {
			pieces, closed := o.next(buffer[:0])
			if buffer = pieces[0]; len(buffer) == 0 {
				if closed {
					return
				}
				break
			}
			if _, err := pieces.WriteTo(o.conn); err != nil {
				o.abandon(err)
			}
			if cap(buffer) > 4*chunk {
				buffer = nil
			}
		}
	}
}

// next encodes messages into a buffer, about a chunk of them, and gives the bytes to write now:
// these, and the output of the last message where it is large. It tells whether the outbox is closed,
// too.
func (o *Outbox) next(b []byte) (pieces net.Buffers, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, large := 0, [2][]byte{}
	for ; n < len(o.messages) && len(b) < chunk && len(large[0])+len(large[1]) == 0; n++ {
		m := &o.messages[n]
		b = m.encode(b)
		if m.Later {
			continue
		}
		if out, err := m.Done.Stdout.Kept, m.Done.Stderr.Kept; len(out)+len(err) > chunk/4 {
			large = [2][]byte{out, err}
		} else {
			b = append(append(b, out...), err...)
		}
	}
	if o.messages = slices.Delete(o.messages, 0, n); len(o.messages) == 0 && n > mostKept {
		o.messages = nil
	}
	return net.Buffers{b, large[0], large[1]}, o.closed
}

// abandon drops everything. If the peer is gone, reading goes on to the end of what it had sent;
// another error ends the connection.
func (o *Outbox) abandon(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead, o.messages = true, nil
	if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		o.conn.Close()
	}
}
