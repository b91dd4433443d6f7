package host

import (
	"container/heap"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// alarms ring when a job is next to be looked at: it has run for a while, or for as long as it may, or it
// has ended, and its output was waited for long enough. Each job is in the heap once, and is taken out
// when it ends: there may be many short jobs whose limits are long. One timer serves all. All times are
// uptimes. Callers of all methods but open must hold the reactor's mu.
type alarms struct {
	timer
	jobs []*child // a heap, the one that is due first in front
}

// lateBegin is the age at which a job is said to run: most have ended by then. leastAlarm is how far
// alarms are apart, so that one serves many jobs.
const (
	lateBegin  = int64(4 * time.Millisecond)
	leastAlarm = int64(2 * time.Millisecond)
)

// lookAgain is how soon an end is looked for again that nothing tells of.
const lookAgain = time.Second

// never is an uptime that does not come.
const never = math.MaxInt64

// Len implements heap.Interface, as the next four do.
func (a *alarms) Len() int           { return len(a.jobs) }
func (a *alarms) Less(i, j int) bool { return a.jobs[i].due < a.jobs[j].due }

func (a *alarms) Swap(i, j int) {
	a.jobs[i], a.jobs[j] = a.jobs[j], a.jobs[i]
	a.jobs[i].place, a.jobs[j].place = i, j
}

// Push implements heap.Interface.
func (a *alarms) Push(c any) {
	c.(*child).place = len(a.jobs)
	a.jobs = append(a.jobs, c.(*child))
}

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := len(a.jobs) - 1
	c := a.jobs[last]
	a.jobs[last], a.jobs = nil, a.jobs[:last]
	c.place = -1
	return c
}

// put has a job looked at when it is due, if it ever is.
func (a *alarms) put(c *child) {
	a.take(c)
	if c.due = c.next(); c.due != never {
		heap.Push(a, c)
		a.set(c.due)
	}
}

// take takes a job out.
func (a *alarms) take(c *child) {
	if c.place >= 0 {
		heap.Remove(a, c.place)
	}
}

// ring takes out the jobs that are due, and sets the timer for the next one.
func (a *alarms) ring(now int64) (due []*child) {
	a.rung()
	for len(a.jobs) > 0 && a.jobs[0].due <= now {
		due = append(due, heap.Pop(a).(*child))
	}
	if len(a.jobs) > 0 {
		a.set(max(a.jobs[0].due, now+leastAlarm))
	}
	return due
}

// next is when the job is to be looked at.
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
		at = min(at, proc.Uptime()+int64(lookAgain))
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
	due := r.alarms.ring(now)
	r.mu.Unlock()
	for _, c := range due {
		r.look(c, now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range due {
		if !c.isReaped() {
			r.alarms.put(c)
		}
	}
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
	if c.unseen && hasZombie(unix.P_PID, c.started.Pid) {
		r.onExit(c)
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
	if c.turn != nil && c.turn.pidfd >= 0 {
		return proc.Over(c.turn.pidfd)
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
