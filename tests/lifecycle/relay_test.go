package lifecycle

import (
	"net"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// relay passes connections on to one address. Any of them can be made half dead: what is sent is
// taken, and goes nowhere, and nobody hears of it.
type relay struct {
	addr  string
	links chan *halfDead // every connection, in the order in which they were made
}

// halfDead is a connection through a relay that may become what it is called.
type halfDead struct {
	mu        sync.Mutex
	swallows  bool
	nearClose func() error
}

// next is the next connection that is made.
func (r *relay) next(t *testing.T) *halfDead {
	t.Helper()
	select {
	case link := <-r.links:
		return link
	case <-time.After(harness.Patience):
		t.Fatalf("waited %s: nobody connects", harness.Patience)
		return nil
	}
}

// swallow has everything vanish that either end sends from now on.
func (h *halfDead) swallow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.swallows = true
}

// lose ends the connection for the end that made it; the other is told nothing.
func (h *halfDead) lose() {
	h.swallow()
	_ = h.nearClose() // it may have ended
}

func startRelay(t *testing.T, target *harness.Daemon) *relay {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{addr: listener.Addr().String(), links: make(chan *halfDead, 100)}
	ended := make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target.Addr)
			if err != nil {
				_ = near.Close()
				continue
			}
			tasks.Go(func() { <-ended; _ = near.Close(); _ = far.Close() })
			h := &halfDead{nearClose: near.Close}
			tasks.Go(func() { h.pass(near, far) })
			tasks.Go(func() { h.pass(far, near) })
			r.links <- h
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(ended)
		tasks.Wait()
	})
	return r
}

func (h *halfDead) pass(from, to net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		h.mu.Lock()
		swallows := h.swallows
		h.mu.Unlock()
		if err != nil {
			if !swallows {
				_ = to.Close()
			}
			return
		}
		if swallows {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// master is the settings that make a worker register through the relay.
func (r *relay) master() harness.Settings {
	return harness.MasterOf(&harness.Daemon{Addr: r.addr})
}
