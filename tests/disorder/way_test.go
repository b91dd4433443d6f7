package disorder

import (
	"net"
	"strconv"
	"sync"
)

// way is a TCP proxy between two of the site's processes that can be made bad:
//
//	cut      links are closed, new ones too
//	held     bytes wait, in both directions, and so does a link's end; new links are taken
//	deaf     what passes on the links of this moment is dropped, and nobody is told that they ended; new links pass
type way struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	isCut   bool
	isHeld  bool
	strands map[*strand]bool
	wait    sync.WaitGroup
}

// strand is one link through the way. What it is deaf for is guarded by the way's mu.
type strand struct {
	client, server net.Conn
	deaf           direction
	healed         bool // it was deaf; its client knows by now that it ended
}

// direction is what a deaf link drops.
type direction int

const (
	nothing direction = iota
	answers           // what the server sends
	both
)

func newWay(t *trial, target string) *way {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("make a way to %s: %v", target, err)
	}
	w := &way{listener: listener, target: target, strands: map[*strand]bool{}}
	w.changed = sync.NewCond(&w.mu)
	w.wait.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *way) port() string { return strconv.Itoa(w.listener.Addr().(*net.TCPAddr).Port) }

func (w *way) cut()  { w.set(func() { w.isCut = true; w.closeStrands(false) }) }
func (w *way) hold() { w.set(func() { w.isHeld = true }) }

func (w *way) deafen(d direction) {
	w.set(func() {
		for s := range w.strands {
			s.deaf = max(s.deaf, d)
		}
	})
}

// heal makes the way good again. Of links that were deaf for answers only the client learns that they ended.
func (w *way) heal() {
	w.set(func() { w.isCut, w.isHeld = false, false; w.closeStrands(true) })
}

// good tells whether everything passes.
func (w *way) good() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.strands {
		if s.deaf != nothing && !s.healed {
			return false
		}
	}
	return !w.isCut && !w.isHeld
}

func (w *way) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	w.changed.Broadcast()
}

// closeStrands closes all links, or those that are deaf. Callers must hold w.mu.
func (w *way) closeStrands(onlyDeaf bool) {
	for s := range w.strands {
		if onlyDeaf && s.deaf == nothing {
			continue
		}
		s.healed = true
		_ = s.client.Close() // it may be closed already, as the other
		if s.deaf != answers || w.closed {
			_ = s.server.Close()
		}
	}
}

// close ends the way and all links.
func (w *way) close() {
	w.set(func() { w.closed = true; w.closeStrands(false) })
	_ = w.listener.Close()
	w.wait.Wait()
}

func (w *way) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		w.wait.Go(func() { w.serve(client) })
	}
}

func (w *way) serve(client net.Conn) {
	defer client.Close()
	w.mu.Lock()
	refused := w.isCut || w.closed
	w.mu.Unlock()
	if refused {
		return
	}
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer server.Close()
	s := &strand{client: client, server: server}
	w.set(func() {
		if w.isCut || w.closed {
			_, _ = client.Close(), server.Close()
			return
		}
		w.strands[s] = true
	})
	var pumps sync.WaitGroup
	pumps.Go(func() { w.pump(s, client, server, both) })
	pumps.Go(func() { w.pump(s, server, client, answers) })
	pumps.Wait()
	w.set(func() { delete(w.strands, s) })
}

// pump passes one direction on; it is dropped where the link is deaf for it.
func (w *way) pump(s *strand, from, to net.Conn, dropped direction) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		deaf := w.passing(s) // a link's end waits, too
		if n > 0 && deaf < dropped {
			if _, failed := to.Write(buffer[:n]); err == nil {
				err = failed
			}
		}
		if err != nil {
			w.ended(s)
			return
		}
	}
}

// passing waits while the way is held and gives what the link is deaf for.
func (w *way) passing(s *strand) direction {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.isHeld && !w.isCut && !w.closed && s.deaf == nothing {
		w.changed.Wait()
	}
	return s.deaf
}

// ended closes a link of which one side has ended, unless the other is not to know.
func (w *way) ended(s *strand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && (s.deaf == answers || s.deaf == both && !s.healed) {
		w.changed.Wait()
	}
	_, _ = s.client.Close(), s.server.Close()
}
