package master

import (
	"context"
	"sync"
)

// cargo is a number of bytes that many may hold parts of at once, and wait for in the order in
// which they come. It is safe for concurrent use.
type cargo struct {
	mu      sync.Mutex
	free    int
	waiting []*load
}

// load is a part of the cargo that somebody waits for.
type load struct {
	bytes  int
	loaded chan struct{} // closed when it is held
}

func newCargo(bytes int) *cargo { return &cargo{free: bytes} }

// hold waits for so many bytes, which must not be more than there are. Where it gives no error,
// release must be called.
func (c *cargo) hold(ctx context.Context, bytes int) error {
	l := c.queue(bytes)
	select {
	case <-l.loaded:
		return nil
	case <-ctx.Done():
		c.giveUp(l)
		return ctx.Err()
	}
}

func (c *cargo) queue(bytes int) *load {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &load{bytes, make(chan struct{})}
	c.waiting = append(c.waiting, l)
	c.serve()
	return l
}

// giveUp ends the waiting for a load, which may be held by now.
func (c *cargo) giveUp(l *load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.waiting {
		if other == l {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			c.serve()
			return
		}
	}
	c.free += l.bytes
	c.serve()
}

func (c *cargo) release(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free += bytes
	c.serve()
}

// serve gives those that wait what is free. Callers must hold mu.
func (c *cargo) serve() {
	for len(c.waiting) > 0 && c.waiting[0].bytes <= c.free {
		c.free -= c.waiting[0].bytes
		close(c.waiting[0].loaded)
		c.waiting = c.waiting[1:]
	}
}
