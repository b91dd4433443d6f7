package sightings

import (
	"bytes"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// way is a TCP way to a server that stands still, loses its farther end or its nearer one, or leads
// elsewhere, as a test says.
type way struct {
	listener net.Listener

	mu       sync.Mutex
	moved    *sync.Cond // something below has changed
	target   string
	refuses  bool
	lingers  bool // a client that is gone stays unnoticed by the server
	still    [2]bool
	trap     []byte
	caught   chan struct{}
	hold     []byte
	held     *link
	links    map[*link]bool
	finished bool
	log      testing.TB
}

// The directions.
const (
	toServer = iota
	toClient
)

// link is one connection.
type link struct {
	client, server net.Conn
	trapped        bool // its packet was the one that was waited for
}

func newWay(t *testing.T, target string) *way {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	w := &way{listener: listener, target: target, links: map[*link]bool{}, log: t}
	w.moved = sync.NewCond(&w.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() { w.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		w.change(func() { w.finished = true })
		w.cut()
		all.Wait()
	})
	return w
}

// toDatabase leads a worker to its database over the way.
func (w *way) toDatabase() harness.Settings {
	return harness.Settings{"mysql_port": strconv.Itoa(w.listener.Addr().(*net.TCPAddr).Port)}
}

// toMaster leads a worker to its master over the way.
func (w *way) toMaster() harness.Settings {
	port := strconv.Itoa(w.listener.Addr().(*net.TCPAddr).Port)
	return harness.Settings{"master_host": "127.0.0.1", "master_port": port, "master_reconnect_timeout": "1"}
}

func (w *way) change(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
	w.moved.Broadcast()
}

// lead has new connections go to another server.
func (w *way) lead(target string) { w.change(func() { w.target = target }) }

// refuse drops new connections at once, or takes them again.
func (w *way) refuse(refuse bool) { w.change(func() { w.refuses = refuse }) }

// linger hides from the server that a client is gone, until the links are cut.
func (w *way) linger() { w.change(func() { w.lingers = true }) }

// freeze holds back what comes, in some directions or in both.
func (w *way) freeze(directions ...int) {
	w.change(func() {
		for _, d := range directions {
			w.still[d] = true
		}
		if len(directions) == 0 {
			w.still = [2]bool{true, true}
		}
	})
}

// thaw lets pass again what was held back, and all that comes.
func (w *way) thaw() { w.change(func() { w.still, w.held = [2]bool{}, nil }) }

// freezeBehind lets the next packet to the server that holds the text pass, and then nothing from the
// server. The signal comes when that has happened. The server does not notice when the client of that link is
// gone, until the links are cut. A claim's last words are "; COMMIT": those without the semicolon are in
// READ UNCOMMITTED, too, which is how rows are looked for without locks.
func (w *way) freezeBehind(text string) <-chan struct{} {
	caught := make(chan struct{})
	w.change(func() { w.trap, w.caught = []byte(text), caught })
	return caught
}

// holdLink holds back the next packet to the server that holds the text, and all behind it on its link, until
// the thaw; the other links go on.
func (w *way) holdLink(text string) <-chan struct{} {
	caught := make(chan struct{})
	w.change(func() { w.hold, w.caught = []byte(text), caught })
	return caught
}

// cut ends all links on both sides; what is held back is lost.
func (w *way) cut() {
	w.change(func() {
		for l := range w.links {
			l.end()
		}
	})
}

// release has the server notice which clients are gone.
func (w *way) release() {
	w.change(func() {
		for l := range w.links {
			if l.trapped {
				l.end()
			}
		}
	})
}

// forsake ends all links on the client's side only: the server does not notice.
func (w *way) forsake() {
	w.change(func() {
		w.lingers = true
		for l := range w.links {
			_ = l.client.Close() // it may be closed already
		}
	})
}

func (l *link) end() {
	_ = l.client.Close() // it may be closed already, as the other
	_ = l.server.Close()
}

func (w *way) serve(client net.Conn) {
	defer client.Close()
	w.mu.Lock()
	target, refuses := w.target, w.refuses || w.finished
	w.mu.Unlock()
	if refuses {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	l := &link{client: client, server: server}
	w.change(func() {
		w.links[l] = true
		if w.finished {
			l.end()
		}
	})
	defer w.change(func() { delete(w.links, l) })
	var both sync.WaitGroup
	both.Go(func() { w.carry(l, toServer) })
	both.Go(func() { w.carry(l, toClient) })
	both.Wait()
}

// carry passes bytes on in one direction until the link ends.
func (w *way) carry(l *link, direction int) {
	from, to := l.client, l.server
	if direction == toClient {
		from, to = to, from
	}
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 && w.pass(l, direction, buffer[:n]) {
			_, _ = to.Write(buffer[:n]) // a server that lingers goes on sending to nobody
		}
		if err == nil {
			continue
		}
		w.mu.Lock()
		stays := direction == toServer && (w.lingers || l.trapped) && !w.finished
		w.mu.Unlock()
		if !stays {
			l.end()
		}
		return
	}
}

// pass waits until a packet may pass, and springs the trap that it sets off.
func (w *way) pass(l *link, direction int, packet []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if direction == toServer && w.hold != nil && bytes.Contains(packet, w.hold) {
		w.held, w.hold = l, nil
		close(w.caught)
	}
	for (w.still[direction] || w.held == l) && !w.finished {
		w.moved.Wait()
	}
	if direction == toServer && w.trap != nil && bytes.Contains(packet, w.trap) {
		w.still[toClient], w.trap, l.trapped = true, nil, true
		w.log.Logf("%s the database stands still behind %.300q", time.Now().Format("15:04:05.000"), packet)
		close(w.caught)
	}
	return !w.finished
}
