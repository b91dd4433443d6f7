package web

import (
	"net"
	"sync"
)

// bounded is a listener that holds so many connections at most. One more is closed at once: whoever
// waits in line for a scrape learns nothing by waiting.
type bounded struct {
	net.Listener
	places chan struct{}
}

func bound(l net.Listener, most int) net.Listener {
	return &bounded{l, make(chan struct{}, most)}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.places <- struct{}{}:
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { <-b.places })}, nil
		default:
			conn.Close()
		}
	}
}

// counted is a connection that has a place until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
