package daemon

import "sync"

// Ending is the end of a daemon: whether somebody asked for it, and what is to follow. It is made
// before the parts, and those that may ask for the end are given it. Its methods are safe for
// concurrent use, and don't block.
//
//	serving ──Restart──► ends, to start again ──stop──► ends for good
//	    └──────stop─────────────────────────────────────────▲
type Ending struct {
	asked chan struct{} // closed by whoever asks first

	mu  sync.Mutex
	how ending
}

// ending is how a daemon ends.
type ending int

const (
	serves   ending = iota
	restarts        // to start again
	stops           // for good
)

// NewEnding makes the end of a daemon that serves.
func NewEnding() *Ending { return &Ending{asked: make(chan struct{})} }

// ends has the daemon end in some way, unless it is further than last.
func (e *Ending) ends(how, last ending) (news bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.how > last {
		return false
	}
	if e.how == serves {
		close(e.asked)
	}
	e.how = how
	return true
}

// stop asks for the end for good. It tells whether nobody has asked for that before.
func (e *Ending) stop() (first bool) { return e.ends(stops, restarts) }

// Restart asks for an end after which the daemon starts again. While it ends for good, Restart does
// nothing.
func (e *Ending) Restart() { e.ends(restarts, serves) }

// Stopping tells whether the daemon ends for good.
func (e *Ending) Stopping() bool { return e.now() == stops }

// Restarting tells whether the daemon ends to start again.
func (e *Ending) Restarting() bool { return e.now() == restarts }

func (e *Ending) now() ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.how
}
