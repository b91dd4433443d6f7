package host

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// child is a job that runs as our child. Its captures, its limit and its end are the reactor's
// alone; signals may come from any goroutine.
type child struct {
	watcher watcher
	started journal.Started
	born    int64 // the uptime after the fork, or when its pipes could not be watched
	forked  int64 // the uptime just before the fork
	gone    int64 // the uptime when the end was seen; 0 before
	over    wire.Overrun
	age     int
	missed  bool // its limit came when it had ended

	stdout, stderr capture
	files          atomic.Pointer[[2]string] // of its output; nil: it is not old enough to be on disk
	written        [2]int                    // bytes of them; the spool's
	exited         bool                      // the process is a zombie, or reaped
	unseen         bool                      // the epoll does not tell of its end
	lingers        bool                      // it has exited, and its output is held open still, or it can't be reaped
	deadline       int64
	done           journal.Done // set before watcher.ended is called
	turn           *turn        // nil: it is a process of its own

	mu     sync.Mutex // of the next three: while it is held, nobody else gets the process's number
	pidfd  int        // -1: there is none (any more)
	reaped bool
	killed bool // SIGKILL came from us
}

// watcher is told by the reactor what happens to a job. It must not hold the reactor up.
type watcher interface {
	// begun says that the job still runs, some milliseconds after its start.
	begun(*child)
	// grown says that the job has run for spoolAge.
	grown(*child)
	// wrote says that more is kept of its output.
	wrote(*child)
	// ended says that it is gone, and that done is set.
	ended(*child)
	// refused says that it never was started, and is not going to be.
	refused(text string, class wire.Class)
}

// signal sends a signal to the job's process group.
func (c *child) signal(signo int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	if unix.Signal(signo) == unix.SIGKILL {
		c.killed = true
	}
	return c.send(unix.Signal(signo))
}

// send sends a signal. Callers must hold c.mu.
func (c *child) send(signo unix.Signal) error {
	if c.turn != nil {
		return c.turn.send(c, signo)
	}
	return proc.Signal(c.started.Pid, signo)
}

// identity is which process it is; zero where that is not known yet.
func (c *child) identity() journal.Started {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

// end kills what a zombie left in its group, then reaps it. Until it is reaped nobody else can have its
// number, which is the group's, too.
func (c *child) end() (reaped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.send(unix.SIGKILL) // the process itself is past it
	status, reaped, err := reap(c.started.Pid)
	if !reaped {
		return false
	}
	c.reaped = true
	c.closePidfd()
	if err != nil && c.turn != nil {
		c.done = journal.Done{Result: wire.ResultLost, Reason: "nobody can tell how it ended: its parent, which was told, is gone"}
	} else if err != nil {
		c.done = journal.Done{Result: "fail", Reason: "wait for the process: " + err.Error()}
	} else {
		c.done = outcome(status)
	}
	return true
}

// closePidfd closes the descriptor of a process that is gone. Callers must hold c.mu.
func (c *child) closePidfd() {
	closeAll(c.pidfd)
	c.pidfd = -1
}

// describe completes the outcome of a child that is reaped, whose output was waited for no longer
// than delay.
func (c *child) describe(delay time.Duration) {
	c.done.Elapsed = proc.Elapsed(c.forked, c.gone)
	c.done.Stdout, c.done.Stderr = c.stdout.output(), c.stderr.output()
	if c.done.Signal == "SIGKILL" && !c.killed {
		c.done.Note = "killed by a SIGKILL that was not jobd's"
	}
	if c.turn != nil && c.turn.note != "" {
		c.done.Note = c.turn.note
	}
	c.over.Mark(&c.done)
	if (c.stdout.open() || c.stderr.open()) && c.done.Result != wire.ResultLost {
		c.done.Reason = fmt.Sprintf("a process it left behind kept its output open for more than %s", delay)
	}
	c.stdout.close()
	c.stderr.close()
}

// outcome translates what the kernel says. Where a signal ended the process there is no exit code:
// −1 would read as something else in the table.
func outcome(status syscall.WaitStatus) journal.Done {
	if status.Signaled() {
		return journal.Done{Result: "fail", Signal: signalName(int(status.Signal()))}
	}
	code := status.ExitStatus()
	if code == 0 {
		return journal.Done{Result: "ok", Code: &code}
	}
	return journal.Done{Result: "fail", Code: &code}
}

// signalName is the signal's name. Real-time signals have none: they are SIG34 and so on.
func signalName(signo int) string {
	if name := unix.SignalName(unix.Signal(signo)); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", signo)
}
