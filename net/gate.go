package net

import "sync"

// gate counts the requests under way, of one link or of all links of a server, and lets no more in
// once it is shut. The zero value is open.
type gate struct {
	mu     sync.Mutex
	inside int
	isShut bool
	empty  chan struct{} // made by shut, closed when the last one has left
}

// enter tells whether one more request may begin; if so, leave must be called at its end.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.isShut && g.inside == 0 {
		close(g.empty)
	}
}

// shut lets nobody in any more. The channel closes when nobody is inside.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isShut {
		g.isShut = true
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}
