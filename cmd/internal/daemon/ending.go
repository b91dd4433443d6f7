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

	mu      sync.Mutex
	restart bool
	final   bool // there is no restart any more
	cause   error
}

// NewEnding makes the end of a daemon that serves.
func NewEnding() *Ending { return &Ending{asked: make(chan struct{})} }

// stop asks for the end for good. It tells whether nobody has asked for that before.
func (e *Ending) stop() (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first = !e.final
	e.ask()
	e.restart, e.final = false, true
	return first
}

// Fail asks for the end because of an error, which Life.Run then returns. While the daemon ends
// already, it does nothing.
func (e *Ending) Fail(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.restart && !e.final {
		e.ask()
		e.final, e.cause = true, cause
	}
}

// Restart asks for an end after which the daemon starts again. While it ends for good, Restart does
// nothing.
func (e *Ending) Restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.final {
		e.ask()
		e.restart = true
	}
}

// Stopping tells whether the daemon ends for good.
func (e *Ending) Stopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.final
}

// InOrder tells whether the daemon ends for good because somebody wants it, and not by a failure.
func (e *Ending) InOrder() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.final && e.cause == nil
}

// Restarting tells whether the daemon ends to start again.
func (e *Ending) Restarting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.restart
}

// ask begins the end, once. Callers must hold e.mu.
func (e *Ending) ask() {
	if !e.restart && !e.final {
		close(e.asked)
	}
}

// why is the error that the daemon ends for, if any.
func (e *Ending) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}
