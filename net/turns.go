package net

import "sync"

// A link whose requests that wait for their turn are of more than waitingBytes is not read on. Each
// counts requestBytes more than its message.
const (
	waitingBytes = 64 << 10
	requestBytes = 512
)

// turns puts the requests of a link in a row: one begins when the one before it has given up its
// turn. A request that waits costs memory and no goroutine, so that a peer that sends a thousand at
// once takes nobody else's turn. The zero value is ready; it is safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	taken   bool // a request has its turn
	waiting []turn
	backlog int           // bytes of waiting
	relief  chan struct{} // closed when backlog is within its limit; nil while it is
}

// turn is a request that waits.
type turn struct {
	bytes int
	begin func()
}

// take calls begin, which must not block, when the turn has come: at once, or by a later pass. The
// peer that sent the request of so many bytes must not be read before relief, unless that is nil.
func (t *turns) take(bytes int, begin func()) (relief <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		begin()
		return nil
	}
	next := turn{bytes: bytes + requestBytes, begin: begin}
	t.waiting = append(t.waiting, next)
	t.backlog += next.bytes
	if t.backlog > waitingBytes && t.relief == nil {
		t.relief = make(chan struct{})
	}
	return t.relief
}

// pass gives the turn to the next request. The one that has it calls it once.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken, t.waiting = false, nil
		return
	}
	next := t.waiting[0]
	t.waiting[0] = turn{} // its message is not held any longer
	t.waiting = t.waiting[1:]
	t.backlog -= next.bytes
	if t.backlog <= waitingBytes && t.relief != nil {
		close(t.relief)
		t.relief = nil
	}
	next.begin()
}
