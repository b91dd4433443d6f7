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
	watcher   turnWatcher

	pool     *pool
	unwanted bool         // it is not to wait for a process any more
	process  *poolProcess // nil while it waits for one, and when that is gone
	line     int          // bytes of the line that asks for it
	note     string

	// The child's mu guards these.
	begun   bool
	forked  bool          // it is a child of its kept process
	pidfd   int           // of a forked one; -1: there is none (any more)
	pending []unix.Signal // came before it began
	touched bool          // it had a signal
}

// turnWatcher is a watcher of a job that may never be started.
type turnWatcher interface {
	watcher
	// refused says that it never was, and is not going to be.
	refused(text string, class wire.Class)
}

// newTurn makes a child that waits for a process.
func newTurn(m *wire.Message, w turnWatcher) *child {
	t := &turn{id: m.ID, vars: m.Vars, maxOutput: m.MaxOutput, limit: m.Limit, watcher: w, pidfd: -1}
	return &child{watcher: w, turn: t, pidfd: -1, place: -1, stdout: capture{closed: true}, stderr: capture{closed: true}}
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
		return proc.SignalGroup(t.pidfd, c.started.Pid, c.started.StartTime, signo)
	}
	return proc.Signal(c.started.Pid, signo)
}

// close closes the descriptor of a process that is reaped. Callers must hold the child's mu.
func (t *turn) close() {
	if t.pidfd >= 0 {
		unix.Close(t.pidfd)
		t.pidfd = -1
	}
}

// isGone tells whether the process of a forked job has ended, be it reaped or not. One of which
// there is no descriptor was gone when it was heard of, mostly.
func (t *turn) isGone(c *child) bool {
	if t.pidfd >= 0 {
		return proc.Over(t.pidfd)
	}
	who, there := proc.RelativesOf(c.started.Pid)
	return !there || who.Ended || who.StartTime != c.started.StartTime
}

// begin notes that the job has begun, in a process.
func (r *reactor) begin(c *child) {
	r.mu.Lock()
	r.children[int32(c.started.Pid)] = c
	r.alarms.put(c)
	r.mu.Unlock()
}

// finish ends a job whose process goes on, or was reaped by its parent. What it has written is in
// its pipes: it was flushed before the end was told. It tells whether a forked one has left something.
func (r *reactor) finish(c *child) (left bool) {
	c.exited, c.gone = true, proc.Uptime()
	c.mu.Lock()
	if c.turn.forked {
		left = c.send(unix.SIGKILL) == nil // what it left in its group
		children.leave(c.started.Pid)
	}
	c.reaped = true
	c.turn.close()
	c.mu.Unlock()
	quiet := isQuiet([2]int{c.stdout.openPipe(), c.stderr.openPipe()})
	for _, p := range []*capture{&c.stdout, &c.stderr} {
		if quiet {
			p.close()
		} else {
			p.leave(r.scratch)
		}
	}
	r.drop(c)
	c.describe(r.delay)
	c.watcher.ended(c)
	return left
}

// isQuiet tells whether nothing is in either of two pipes, and somebody has each of them open still. It
// asks once for what else takes several calls, which it mostly saves. Pipes below 0 are there no more.
func isQuiet(pipes [2]int) bool {
	fds := [2]unix.PollFd{{Fd: int32(pipes[0]), Events: unix.POLLIN}, {Fd: int32(pipes[1]), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], 0)
	return n == 0 && err == nil
}

// openPipe is the pipe while it is not closed, else −1.
func (c *capture) openPipe() int {
	if c.closed {
		return -1
	}
	return c.pipe
}

// leave reads what is in the pipe now, no more, and leaves it.
func (c *capture) leave(scratch []byte) {
	if c.closed {
		return
	}
	c.bounded, c.left = true, pending(c.pipe)
	for c.left > 0 && !c.closed {
		before := c.left
		if c.read(scratch, true); c.left == before {
			break // somebody else has read it
		}
	}
	c.close()
}

// pending is how many bytes are in a pipe.
func pending(pipe int) int {
	n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
