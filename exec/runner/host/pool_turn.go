package host

import (
	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// turn is what a child has beyond a process of its own: it is a job that a kept process runs, or
// has forked. The reactor's, but for what the child's mu guards.
type turn struct {
	id        wire.ID
	vars      []string
	maxOutput int
	limit     wire.Limit

	pool    *pool
	process *poolProcess // nil while it waits for one, and when that is gone
	line    int          // bytes of the line that asks for it
	note    string

	// The child's mu guards these.
	begun   bool
	forked  bool          // it is a child of its kept process
	pending []unix.Signal // came before it began
	touched bool          // it had a signal
}

// newTurn makes a child that waits for a process.
func newTurn(m *wire.Message, w watcher) *child {
	t := &turn{id: m.ID, vars: m.Vars, maxOutput: m.MaxOutput, limit: m.Limit}
	return &child{watcher: w, turn: t, pidfd: -1, stdout: capture{closed: true}, stderr: capture{closed: true}}
}

// send sends a signal to the job's group, or keeps it until the job has begun. Callers must hold
// c.mu.
func (t *turn) send(c *child, signo unix.Signal) error {
	if !t.begun {
		t.pending = append(t.pending, signo)
		return nil
	}
	t.touched = t.touched || signo != 0
	if t.forked { // its parent may have reaped it
		return proc.SignalGroup(c.pidfd, c.started.Pid, c.started.StartTime, signo)
	}
	return proc.Signal(c.started.Pid, signo)
}

// isGone tells whether the process of a forked job has ended, be it reaped or not. One of which
// there is no descriptor was gone when it was heard of, mostly.
func (t *turn) isGone(c *child) bool {
	if c.pidfd >= 0 {
		return proc.Over(c.pidfd)
	}
	who, there := proc.RelativesOf(c.started.Pid)
	return !there || who.Ended || who.StartTime != c.started.StartTime
}

// begin notes that the job has begun, in a process.
func (r *reactor) begin(c *child) {
	r.mu.Lock()
	r.children[int32(c.started.Pid)] = c
	r.set(c.next())
	r.mu.Unlock()
}

// finish ends a job whose process goes on, or was reaped by its parent. It has flushed before the end
// was told. It tells whether a forked one has left something.
func (r *reactor) finish(c *child) (left bool) {
	if c.turn.forked {
		c.mu.Lock()
		left = c.send(unix.SIGKILL) == nil // what it left in its group
		c.mu.Unlock()
		children.leave(c.started.Pid)
	}
	r.release(c)
	return left
}
