package linkproxy

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Fault is how the link breaks around the packet that Break waits for.
type Fault int

// The faults.
const (
	Unsent     Fault = iota // the packet does not reach the server
	Unanswered              // the packet reaches the server, which answers, but nobody hears it
	Held                    // the client loses its link; the server gets the packet when it is released
)

// Proxy passes connections on to one address. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup
	closing  chan struct{} // closed by Close

	mu      sync.Mutex
	links   map[*link]bool
	refuses bool
	lingers bool
	silence chan struct{} // closed when bytes pass again; nil: they pass
	trap    *trap
	bytes   int64 // the client's bytes until the cut; negative: no cut

	replacements []*Replacement
}

// trap is a break that waits for its packet.
type trap struct {
	text    []byte
	fault   Fault
	sprung  chan struct{}
	release chan struct{}
}

// Broken is a break that was asked for.
type Broken struct {
	// Done is closed when the link has broken; for Held, when the packet is held.
	Done <-chan struct{}
	// Release lets a held packet pass. Call it once.
	Release func()
}

// Start listens on a free port and passes connections on to target, an address.
func Start(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy for %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, closing: make(chan struct{}), links: map[*link]bool{}, bytes: -1}
	p.wait.Go(p.accept)
	return p, nil
}

// Port is where the proxy listens.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Break breaks one link at the next packet from a client that holds the text.
func (p *Proxy) Break(text string, fault Fault) Broken {
	t := &trap{text: []byte(text), fault: fault, sprung: make(chan struct{}), release: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return Broken{Done: t.sprung, Release: func() { close(t.release) }}
}

// CutAfter cuts the link when clients have sent n more bytes; the last of them still arrive.
func (p *Proxy) CutAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = n
}

// Cut cuts all links there are.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Silence makes the proxy pass nothing on, either way, with all links left open and new ones taken, as a
// network does that loses everything; then what was held passes.
func (p *Proxy) Silence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case silent && p.silence == nil:
		p.silence = make(chan struct{})
	case !silent && p.silence != nil:
		close(p.silence)
		p.silence = nil
	}
}

// audible waits while the proxy passes nothing on.
func (p *Proxy) audible() {
	p.mu.Lock()
	silence := p.silence
	p.mu.Unlock()
	if silence != nil {
		select {
		case <-silence:
		case <-p.closing:
		}
	}
}

// Refuse makes the proxy drop new connections at once, or take them again.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = refuse
}

// Close ends the proxy and all links; a packet that is still held is dropped.
// Call it once.
func (p *Proxy) Close() error {
	p.mu.Lock()
	close(p.closing)
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.wait.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wait.Go(func() { p.serve(client) })
	}
}

// serve passes one connection on until it ends.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.leadsTo())
	if err != nil {
		return
	}
	defer server.Close()
	l := &link{proxy: p, client: client, server: server}
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	var both sync.WaitGroup
	both.Go(l.backward)
	both.Go(l.forward)
	both.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closing:
		return false
	default:
	}
	if !p.refuses {
		p.links[l] = true
	}
	return !p.refuses
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// sprung gives the trap that packet springs, which is then set no more.
func (p *Proxy) sprung(packet []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil || !bytes.Contains(packet, p.trap.text) {
		return nil
	}
	t := p.trap
	p.trap = nil
	return t
}

// errCut says that the link's bytes are used up.
var errCut = errors.New("cut")

// allow tells how many of n bytes may still pass.
func (p *Proxy) allow(n int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes < 0 {
		return n, nil
	}
	if int64(n) < p.bytes {
		p.bytes -= int64(n)
		return n, nil
	}
	n = int(p.bytes)
	p.bytes = -1
	return n, errCut
}

// Lead has new connections go to another address, as a router does after a failover. Those there
// are stay where they are.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// leadsTo is where new connections go.
func (p *Proxy) leadsTo() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Linger hides from the server that a client is gone, until the links are cut.
func (p *Proxy) Linger() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lingers = true
}

func (p *Proxy) lingering() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lingers
}

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
		l.proxy.audible()
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
		l.proxy.audible()
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

// Replacement is a text that does not pass the proxy.
type Replacement struct {
	text, by []byte
	met      atomic.Int64
}

// Met is how many packets had the text.
func (r *Replacement) Met() int64 { return r.met.Load() }

// Replace makes the proxy replace a text by another one, in both directions, so that a server seems
// to be one that it is not. Both have the same length: packets say how long they are. A text in two
// packets passes.
func (p *Proxy) Replace(text, by string) (*Replacement, error) {
	if len(text) != len(by) || text == "" {
		return nil, fmt.Errorf("replace %q by %q: their lengths differ, or they are empty", text, by)
	}
	r := &Replacement{text: []byte(text), by: []byte(by)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replacements = append(p.replacements, r)
	return r, nil
}

// rewrite does the replacements in a packet.
func (p *Proxy) rewrite(packet []byte) {
	p.mu.Lock()
	replacements := p.replacements
	p.mu.Unlock()
	for _, r := range replacements {
		if !bytes.Contains(packet, r.text) {
			continue
		}
		r.met.Add(1)
		copy(packet, bytes.ReplaceAll(packet, r.text, r.by))
	}
}
