package simulation

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// network carries bytes between workers, masters and the application. Nothing is lost on a connection that
// lives; what is sent while a master is cut off arrives when that is over.
type network struct {
	w *world

	mu        sync.Mutex
	listeners map[string]*listener
	stalled   map[string]time.Time // by a master's address: until when it is cut off
	lines     map[string][]*line   // by a master's address
	port      int
}

func newNetwork(w *world) *network {
	return &network{w: w, listeners: map[string]*listener{}, stalled: map[string]time.Time{}, lines: map[string][]*line{}}
}

// listener is a master's.
type listener struct {
	n       *network
	address string
	calls   chan *line
	closed  chan struct{}
	once    sync.Once
}

func (n *network) listen(address string) *listener {
	l := &listener{n: n, address: address, calls: make(chan *line), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case call := <-l.calls:
		return call, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

// kill resets all connections of a master, which nobody reaches any more.
func (n *network) kill(address string) {
	n.mu.Lock()
	l, lines := n.listeners[address], n.lines[address]
	delete(n.listeners, address)
	delete(n.lines, address)
	n.mu.Unlock()
	_ = l.Close()
	for _, one := range lines {
		_ = one.Close()
	}
}

// stall cuts a master off.
func (n *network) stall(address string, lasts time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stalled[address] = time.Now().Add(lasts)
}

// delay is how long a packet is on its way from or to a master.
func (n *network) delay(address string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return trip + max(0, time.Until(n.stalled[address]))
}

var errRefused = errors.New("connection refused")

// dial makes a connection to a master, for who is there as long as gone is open.
func (n *network) dial(ctx context.Context, address string, gone <-chan struct{}) (net.Conn, error) {
	if err := rest(ctx, 2*n.delay(address)); err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.listeners[address]
	n.port++
	from := &net.TCPAddr{IP: net.IPv4(10, 1, byte(n.port>>8), byte(n.port)), Port: 1 + n.port%60000}
	n.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	here, there := newStream(), newStream()
	ours := &line{master: l, in: here, out: there, remote: l.Addr(), gone: gone}
	theirs := &line{master: l, in: there, out: here, remote: from}
	select {
	case l.calls <- theirs:
	case <-l.closed:
		return nil, errRefused
	case <-gone:
		return nil, errKilled
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines[address] = append(n.lines[address], ours)
	return ours, nil
}

// cut resets a share of the connections to a master: one in every.
func (n *network) cut(address string, every int) {
	n.mu.Lock()
	var cut []*line
	for i, one := range n.lines[address] {
		if i%every == 0 {
			cut = append(cut, one)
		}
	}
	n.mu.Unlock()
	for _, one := range cut {
		_ = one.Close()
	}
}

// packet is bytes on their way.
type packet struct {
	bytes []byte
	due   time.Time
}

// stream is one direction of a connection.
type stream struct {
	mu       sync.Mutex
	packets  []packet
	deadline time.Time // of reads
	closed   bool
	changed  chan struct{} // has room for one
}

func newStream() *stream { return &stream{changed: make(chan struct{}, 1)} }

func (s *stream) change(do func()) {
	s.mu.Lock()
	do()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// line is one end of a connection.
type line struct {
	master  *listener // at one end
	in, out *stream
	remote  net.Addr
	gone    <-chan struct{} // closed when the process at this end is killed; nil: it is not
}

// Read implements net.Conn.
func (l *line) Read(into []byte) (n int, err error) {
	for s := l.in; ; {
		var due time.Time // of the first packet, or of the deadline
		s.mu.Lock()
		now := time.Now()
		switch {
		case len(s.packets) > 0 && !s.packets[0].due.After(now):
			first := &s.packets[0]
			if n = copy(into, first.bytes); n == len(first.bytes) {
				s.packets = s.packets[1:]
			} else {
				first.bytes = first.bytes[n:]
			}
			s.mu.Unlock()
			return n, nil
		case s.closed:
			s.mu.Unlock()
			return 0, io.EOF
		case !s.deadline.IsZero() && !s.deadline.After(now):
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(s.packets) > 0:
			due = s.packets[0].due
		}
		if !s.deadline.IsZero() && (due.IsZero() || s.deadline.Before(due)) {
			due = s.deadline
		}
		s.mu.Unlock()
		if due.IsZero() {
			<-s.changed
			continue
		}
		timer := time.NewTimer(due.Sub(now))
		select {
		case <-s.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Write implements net.Conn. It does not wait for the peer.
func (l *line) Write(bytes []byte) (int, error) {
	select {
	case <-l.gone:
		return 0, errKilled
	default:
	}
	due := time.Now().Add(l.master.n.delay(l.master.address))
	err := error(nil)
	l.out.change(func() {
		if l.out.closed {
			err = io.ErrClosedPipe
			return
		}
		l.out.packets = append(l.out.packets, packet{append([]byte(nil), bytes...), due})
	})
	if err != nil {
		return 0, err
	}
	return len(bytes), nil
}

// Close implements net.Conn: both ends are reset.
func (l *line) Close() error {
	for _, s := range []*stream{l.in, l.out} {
		s.change(func() { s.closed = true })
	}
	return nil
}

// LocalAddr implements net.Conn.
func (l *line) LocalAddr() net.Addr { return l.master.Addr() }

// RemoteAddr implements net.Conn.
func (l *line) RemoteAddr() net.Addr { return l.remote }

// SetDeadline implements net.Conn.
func (l *line) SetDeadline(t time.Time) error { return l.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (l *line) SetReadDeadline(t time.Time) error {
	l.in.change(func() { l.in.deadline = t })
	return nil
}

// SetWriteDeadline implements net.Conn: a write takes no time.
func (l *line) SetWriteDeadline(time.Time) error { return nil }
