package daemon

import "sync"

// Ending is the end of a daemon: whether somebody asked for it, and what is to follow. It is made
// before the parts, and those that may ask for the end are given it. Its methods are safe for
// concurrent use, and don't block.
//
//	serving ──Restart──► ends, to start again ──Stop──► ends for good
//	    └──────Stop or Fail─────────────────────────────────▲
type Ending struct {
	asked chan struct{} // closed by whoever asks first

	mu      sync.Mutex
	restart bool
	stop    bool
	cause   error
}

// NewEnding makes the end of a daemon that serves.
func NewEnding() *Ending { return &Ending{asked: make(chan struct{})} }

// Stop asks for the end for good. It tells whether nobody has asked for that before.
func (e *Ending) Stop() (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first = !e.stop
	e.ask()
	e.restart, e.stop = false, true
	return first
}

// Fail asks for the end because of an error, which Life.Run then returns. While the daemon ends
// already, it does nothing.
func (e *Ending) Fail(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.restart && !e.stop {
		e.ask()
		e.stop, e.cause = true, cause
	}
}

// Restart asks for an end after which the daemon starts again. It does nothing and says false
// where the daemon ends for good.
func (e *Ending) Restart() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop {
		return false
	}
	e.ask()
	e.restart = true
	return true
}

// Stopping tells whether the daemon ends for good.
func (e *Ending) Stopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stop
}

// Restarting tells whether the daemon ends to start again.
func (e *Ending) Restarting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.restart
}

// ask begins the end, once. Callers must hold e.mu.
func (e *Ending) ask() {
	if !e.restart && !e.stop {
		close(e.asked)
	}
}

// why is the error that the daemon ends for, if any.
func (e *Ending) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}
