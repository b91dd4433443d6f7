package simulation

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// network carries bytes between workers, masters and the application. Nothing is lost on a connection that
// lives; what is sent while a master is cut off arrives when that is over.
type network struct {
	mu      sync.Mutex
	masters map[string]*listener
	stalled map[string]time.Time // by a master's address: until when it is cut off
	made    int                  // connections
}

// listener is a master's, who lives as long as it is open.
type listener struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
	lines  []*line // to it
}

// line is one end of a connection.
type line struct {
	net.Conn
	n       *network
	address string // of the master at one end
	remote  net.Addr
	gone    <-chan struct{} // closed when the process at this end is killed; nil: it is not
}

func (n *network) listen(address string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.masters[address] = &listener{calls: make(chan net.Conn), closed: make(chan struct{})}
	return n.masters[address]
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case call := <-l.calls:
		return call, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*listener) Addr() net.Addr { return address(1) }

// address is one of a simulated host.
func address(n int) net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, byte(n>>16), byte(n>>8), byte(n)), Port: 7080}
}

// kill resets all connections of a master, which nobody reaches any more.
func (n *network) kill(address string) {
	_ = n.masters[address].Close()
	n.cut(address, 1)
}

// cut resets connections to a master: one in every.
func (n *network) cut(address string, every int) {
	n.mu.Lock()
	lines := n.masters[address].lines
	n.mu.Unlock()
	for i, one := range lines {
		if i%every == 0 {
			_ = one.Close()
		}
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

// dial makes a connection to a master, for who is there as long as gone is open.
func (n *network) dial(ctx context.Context, master string, gone <-chan struct{}) (net.Conn, error) {
	if err := rest(ctx, n.delay(master)); err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	n.mu.Lock()
	n.made++
	l := n.masters[master]
	ours := &line{here, n, master, l.Addr(), gone}
	theirs := &line{there, n, master, address(n.made), l.closed}
	l.lines = append(l.lines, ours)
	n.mu.Unlock()
	select {
	case l.calls <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-gone:
		return nil, errKilled
	}
}

func (l *line) Write(bytes []byte) (int, error) {
	if pass(l.n.delay(l.address)); isClosed(l.gone) {
		return 0, errKilled
	}
	return l.Conn.Write(bytes)
}

func (l *line) RemoteAddr() net.Addr { return l.remote }
