package daemon

import "sync"

// Ending is the end of a daemon: whether somebody asked for it, and what is to follow. It is made
// before the parts, and those that may ask for the end are given it. Its methods are safe for
// concurrent use, and don't block.
//
//	serving ──Restart──► ends, to start again ──stop──► ends for good
//	    └──────stop or Fail─────────────────────────────────▲
type Ending struct {
	asked chan struct{} // closed by whoever asks first

	mu    sync.Mutex
	how   ending
	cause error // that it ends for
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
func (e *Ending) ends(how, last ending, cause error) (news bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.how > last {
		return false
	}
	if e.how == serves {
		close(e.asked)
	}
	e.how, e.cause = how, cause
	return true
}

// stop asks for the end for good. It tells whether nobody has asked for that before.
func (e *Ending) stop() (first bool) { return e.ends(stops, restarts, nil) }

// Fail asks for the end because of an error, which Life.Run then returns. While the daemon ends
// already, it does nothing.
func (e *Ending) Fail(cause error) { e.ends(stops, serves, cause) }

// Restart asks for an end after which the daemon starts again. While it ends for good, Restart does
// nothing.
func (e *Ending) Restart() { e.ends(restarts, serves, nil) }

// Stopping tells whether the daemon ends for good.
func (e *Ending) Stopping() bool { return e.now() == stops }

// InOrder tells whether the daemon ends for good because somebody wants it, and not by a failure.
func (e *Ending) InOrder() bool { return e.now() == stops && e.why() == nil }

// Restarting tells whether the daemon ends to start again.
func (e *Ending) Restarting() bool { return e.now() == restarts }

func (e *Ending) now() ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.how
}

// why is the error that the daemon ends for, if any.
func (e *Ending) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}
