package linkproxy

import (
	"net"
	"sync/atomic"
)

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	deaf           atomic.Pointer[chan struct{}] // where set, the server's answer is dropped and reported here
}

// cut ends both sides.
func (l *link) cut() {
	_ = l.client.Close() // it may be closed already, as the other
	_ = l.server.Close()
}

// forward passes what the client sends. A packet is what one read gives: over
// the loopback that is what the client wrote in one go, up to the buffer's size.
func (l *link) forward() {
	defer func() {
		if !l.proxy.lingering() {
			l.cut()
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := l.client.Read(buffer)
		l.proxy.rewrite(buffer[:n])
		if n > 0 && !l.pass(buffer[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass sends a packet on and tells whether the link goes on.
func (l *link) pass(packet []byte) bool {
	if t := l.proxy.sprung(packet); t != nil {
		l.spring(t, packet)
		return false
	}
	n, cut := l.proxy.allow(len(packet))
	if _, err := l.server.Write(packet[:n]); err != nil {
		return false
	}
	return cut == nil
}

// spring breaks the link as the trap says.
func (l *link) spring(t *trap, packet []byte) {
	switch t.fault {
	case Unanswered:
		heard := make(chan struct{})
		l.deaf.Store(&heard)
		if _, err := l.server.Write(packet); err == nil {
			<-heard
		}
		close(t.sprung)
	case Held:
		heard := make(chan struct{})
		l.deaf.Store(&heard)
		_ = l.client.Close()
		close(t.sprung)
		select {
		case <-t.release:
		case <-l.proxy.closing:
			return
		}
		if _, err := l.server.Write(packet); err == nil {
			<-heard
		}
	default:
		l.cut()
		close(t.sprung)
	}
}

// backward passes what the server answers, until nobody may hear it any more.
func (l *link) backward() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := l.server.Read(buffer)
		l.proxy.rewrite(buffer[:n])
		if heard := l.deaf.Load(); heard != nil {
			close(*heard)
			return
		}
		if err != nil {
			_ = l.client.Close()
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
