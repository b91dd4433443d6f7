package exec

import "sync"

// group is goroutines that are waited for together. The zero group is ready to use.
type group struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed when none runs; nil while nobody waits for that
}

// Go runs f in a goroutine of the group.
func (g *group) Go(f func()) {
	g.count(1)
	go func() {
		defer g.count(-1)
		f()
	}()
}

// Ended gives a channel that is closed once no goroutine of the group runs.
func (g *group) Ended() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.ended = make(chan struct{})
	}
	ended := g.ended
	g.tell()
	return ended
}

func (g *group) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n += n
	g.tell()
}

// tell tells those who wait, once none runs. Callers must hold g.mu.
func (g *group) tell() {
	if g.n == 0 && g.ended != nil {
		close(g.ended)
		g.ended = nil
	}
}
