package host

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// A job is next to be looked at when it has run for a while, or for as long as it may, or when it has
// ended, and its output was waited for long enough. One timer serves all, and the pools; when it rings all
// are gone through, which takes some microseconds for a hundred. All times are uptimes.

// lateBegin is the age at which a job is said to run: most have ended by then. leastAlarm is how far
// rings are apart, so that one serves many jobs.
const (
	lateBegin  = int64(4 * time.Millisecond)
	leastAlarm = int64(2 * time.Millisecond)
)

// lookAgain is how soon an end is looked for again that nothing tells of.
const lookAgain = time.Second

// never is an uptime that does not come.
const never = int64(math.MaxInt64)

// next is when the reactor must look at the job.
func (c *child) next() (at int64) {
	at = never
	switch {
	case c.exited && c.lingers:
		return c.deadline
	case c.exited:
		return never
	case c.age == young:
		at = c.born + lateBegin
	case c.age == grown:
		at = c.forked + spoolAge
	}
	if limit, ever := c.over.Due(); ever && !c.missed {
		at = min(at, limit)
	}
	if c.unseen {
		at = min(at, c.deadline)
	}
	return at
}

// The ages of a job.
const (
	young = iota // it is not said to run yet
	grown        // it is, and its pipes are watched
	old          // what it writes is put on disk
)

// onTimer says that jobs run that have come of age, stops those that have run for as long as they
// may, and ends those whose output was waited for.
func (r *reactor) onTimer() {
	now := proc.Uptime()
	r.mu.Lock()
	r.timer.rung()
	var due []*child
	for _, c := range r.children {
		if c.next() <= now {
			due = append(due, c)
		}
	}
	r.mu.Unlock()
	for _, c := range due {
		r.look(c, now)
	}
	r.pools.onTimer(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	next := never
	for _, c := range r.children {
		next = min(next, c.next())
	}
	r.set(max(next, now+leastAlarm))
}

// set has the timer ring, where that is ever to be. Callers must hold r.mu.
func (r *reactor) set(at int64) {
	if at != never {
		r.timer.set(at)
	}
}

// ringAt has the timer ring.
func (r *reactor) ringAt(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(at)
}

// look does what is due for a job.
func (r *reactor) look(c *child, now int64) {
	switch {
	case c.exited && c.lingers && c.deadline <= now:
		r.end(c)
		return
	case c.exited:
		return
	case c.age == young && c.born+lateBegin <= now:
		if c.age = grown; !r.listen(c) { // it is tried again
			c.age, c.born = young, now
		}
		c.watcher.begun(c)
	case c.age == grown && c.forked+spoolAge <= now:
		c.age = old
		c.watcher.grown(c)
	}
	if at, ever := c.over.Due(); ever && at <= now && !c.missed {
		c.missed = !c.overrun()
	}
	if c.unseen && c.deadline <= now {
		if c.deadline = now + int64(lookAgain); hasZombie(unix.P_PID, c.started.Pid) {
			r.onExit(c)
		}
	}
}

// overrun sends the signals that are due to the job's group. It sends none, and fails, where the
// process is gone: then its end came first, though that was not seen yet.
func (c *child) overrun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || c.hasEnded() {
		return false
	}
	for _, signo := range c.over.Next(proc.Uptime()) {
		c.killed = c.killed || signo == unix.SIGKILL
		_ = c.send(signo) // the group is there as long as its leader is not reaped
	}
	return true
}

// hasEnded tells whether the process has ended, though nobody was told. Callers must hold c.mu.
func (c *child) hasEnded() bool {
	if c.pidfd >= 0 {
		return proc.Over(c.pidfd)
	}
	return hasZombie(unix.P_PID, c.started.Pid)
}

// hasZombie tells whether a child of ours, or any, has ended that is not reaped. One that has made us
// its tracer is told of when it stops, too.
func hasZombie(which, pid int) bool {
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(which, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	}
	const dumped = 3 // CLD_DUMPED, behind CLD_EXITED and CLD_KILLED
	return err == nil && info.Signo != 0 && info.Code <= dumped
}

// timer rings at an uptime.
type timer struct {
	fd int   // a timerfd
	at int64 // when it rings; 0: never
}

func newTimer() (t timer, err error) {
	t.fd, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	return t, os.NewSyscallError("timerfd_create", err)
}

// set sets the timer, unless it rings before.
func (t *timer) set(at int64) {
	if t.at != 0 && t.at <= at {
		return
	}
	t.at = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1))}
	_ = unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &spec, nil) // it fails only for bad arguments
}

// rung notes that it has rung, so that the epoll does not report it again.
func (t *timer) rung() {
	var count [8]byte
	_, _ = unix.Read(t.fd, count[:])
	t.at = 0
}

func (t *timer) close() { unix.Close(t.fd) }
