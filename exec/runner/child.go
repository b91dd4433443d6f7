package runner

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// child is a job that runs as our child. Its captures and its end are the reactor's alone.
type child struct {
	local    *Local
	watcher  watcher
	started  journal.Started
	born     int64 // nanoseconds since boot; so are the next two
	forked   int64 // just before it was
	gone     int64 // when it was seen to have ended; 0 before
	oomKills int64 // of local, when it was started

	stdout, stderr capture
	pidfd          int  // -1: there is none (any more)
	exited         bool // is a zombie
	lingers        bool // is one whose output is still held open
	deadline       int64
	done           journal.Done // once its watcher is told of the end

	// Under the reactor's lock.
	reaped bool
	killed bool // SIGKILL came from us
}

// watcher is told of a job by the reactor, which it must not hold up.
type watcher interface {
	// begun says that the job runs still, some milliseconds after its start.
	begun(*child)
	// ended says that it is gone, and done is set.
	ended(*child)
}

// Signal sends a signal to the job's process group.
func (c *child) Signal(signo int) error {
	c.local.mu.Lock()
	defer c.local.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	if unix.Signal(signo) == unix.SIGKILL {
		c.killed = true
	}
	return unix.Kill(-c.started.Pid, unix.Signal(signo))
}

// reap ends what a zombie left in its group, then learns how it ended itself. As long as it is not
// reaped nobody else can have its number, and with it the group's. It is not to be had as
// long as a debugger holds it.
func (c *child) reap() (reaped bool) {
	c.local.mu.Lock()
	defer c.local.mu.Unlock()
	_ = unix.Kill(-c.started.Pid, unix.SIGKILL) // the process itself is past it
	var status syscall.WaitStatus
	pid, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		pid, err = syscall.Wait4(c.started.Pid, &status, unix.WNOHANG, nil)
	}
	if pid == 0 && err == nil {
		return false
	}
	c.reaped = true
	delete(c.local.children, int32(c.started.Pid))
	if err != nil {
		c.done = journal.Done{Result: "fail", Reason: "wait for the process: " + err.Error()}
	} else {
		c.done = outcome(status)
	}
	return true
}

// describe completes the outcome of a child that is reaped.
func (c *child) describe() {
	c.done.Elapsed = elapsed(c.forked, c.gone)
	c.done.Stdout, c.done.Stderr = c.stdout.output(), c.stderr.output()
	if c.done.Signal == "SIGKILL" && !c.killed {
		c.done.Note = c.local.killer(c.oomKills)
	}
	if c.stdout.open() || c.stderr.open() {
		c.done.Reason = fmt.Sprintf("a process it left behind kept its output open for more than %s", c.local.delay)
	}
	c.stdout.close()
	c.stderr.close()
}

// elapsed is the time between two moments by the boot clock, in whole microseconds of which there is one at least: 0 would
// say that it is not known.
func elapsed(from, to int64) int64 { return max(1, (to-from)/int64(time.Microsecond)) }

// outcome translates what the kernel says. There is no exit code where a signal
// ended the process: −1 would read as something else in the table (pitfall 11).
func outcome(status syscall.WaitStatus) journal.Done {
	if status.Signaled() {
		return journal.Done{Result: "fail", Signal: SignalName(int(status.Signal()))}
	}
	code := status.ExitStatus()
	if code == 0 {
		return journal.Done{Result: "ok", Code: &code}
	}
	return journal.Done{Result: "fail", Code: &code}
}

// SignalName is the signal's name, "SIG34" where it has none (pitfall 12).
func SignalName(signo int) string {
	if name := unix.SignalName(unix.Signal(signo)); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", signo)
}
