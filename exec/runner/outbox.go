package runner

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// outbox holds messages on their way, so that who sends never waits for who
// reads. It is bounded by what it is about: a few messages a job under way, which are encoded
// only when the socket takes them.
//
// The worker posts: a goroutine writes, and what many post meanwhile goes out in one write. The runner sends and
// then flushes, which writes without waiting; the goroutine does the rest only if the socket is full.
type outbox struct {
	conn *net.UnixConn
	raw  syscall.RawConn
	wake chan struct{}

	mu       sync.Mutex
	messages []message
	buffer   []byte   // encoded messages
	segments [][]byte // what is to be written before the next message is encoded: of buffer, and outputs
	writing  bool     // the goroutine is about it
	closed   bool
	dead     bool // nothing can be written any more
}

func newOutbox(conn *net.UnixConn) (*outbox, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &outbox{conn: conn, raw: raw, wake: make(chan struct{}, 1)}, nil
}

// send puts a message behind the others.
func (o *outbox) send(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead {
		o.messages = append(o.messages, m)
	}
}

// post sends a message and has it written.
func (o *outbox) post(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return
	}
	o.messages = append(o.messages, m)
	if !o.writing {
		o.hand()
	}
}

// hand leaves the writing to the goroutine. The lock is held.
func (o *outbox) hand() {
	o.writing = true
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// close makes write return when it has written what there is.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.hand()
}

// length is how many messages wait.
func (o *outbox) length() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages)
}

// flush writes what there is, as far as the socket takes it now.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.writing && o.fill() {
		n, err := o.try(o.segments[0])
		o.consume(n)
		switch {
		case errors.Is(err, unix.EAGAIN):
			o.hand()
		case err != nil:
			o.abandon(err)
		}
	}
}

// try writes without waiting.
func (o *outbox) try(b []byte) (n int, err error) {
	ctlErr := o.raw.Write(func(fd uintptr) bool {
		for {
			if n, err = unix.Write(int(fd), b); err != unix.EINTR {
				return true
			}
		}
	})
	return max(n, 0), errors.Join(ctlErr, err)
}

// write writes, whenever it is woken, until the outbox is closed or the other side is gone.
func (o *outbox) write() {
	for range o.wake {
		if o.drain() {
			return
		}
	}
}

// drain writes until there is nothing more, and tells whether there never will be.
func (o *outbox) drain() (over bool) {
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

// chunk is about how much is encoded at a time.
const chunk = 64 << 10

// fill encodes what comes next, and tells whether there is anything to write. The lock is held.
func (o *outbox) fill() bool {
	if len(o.segments) > 0 {
		return true
	}
	if cap(o.buffer) > 4*chunk {
		o.buffer = nil
	}
	o.buffer = o.buffer[:0]
	taken := 0
	var large [][]byte
	for taken < len(o.messages) && len(o.buffer) < chunk && large == nil {
		large = o.encode(&o.messages[taken])
		taken++
	}
	clear(o.messages[:taken])
	switch {
	case taken < len(o.messages):
		o.messages = o.messages[taken:]
	case taken > mostBatch:
		o.messages = nil
	default:
		o.messages = o.messages[:0]
	}
	if taken > 0 {
		o.segments = append(append(o.segments, o.buffer), large...)
	}
	return taken > 0
}

// encode puts a message into the buffer, with its output if that is small, and gives that
// if it is large.
func (o *outbox) encode(m *message) (large [][]byte) {
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

// consume drops what was written. The lock is held.
func (o *outbox) consume(n int) {
	if o.segments[0] = o.segments[0][n:]; len(o.segments[0]) == 0 {
		o.segments[0] = nil
		o.segments = o.segments[1:]
	}
	if len(o.segments) == 0 {
		o.segments = nil
	}
}

// abandon drops everything. Where the other side is gone reading ends by itself, with what it still
// sent; another error ends the connection. The lock is held.
func (o *outbox) abandon(err error) {
	o.dead, o.messages, o.segments = true, nil, nil
	if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		o.conn.Close()
	}
}
