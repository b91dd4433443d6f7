package host

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// alarms ring when a job has run for a while, or for as long as it may, and when the output of one
// that has ended was waited for long enough. One timer serves all. All times are uptimes. Callers of all methods but open
// must hold the reactor's mu.
type alarms struct {
	timer     int      // a timerfd
	at        int64    // when it rings; 0: never
	young     []*child // not said to run yet, the oldest first; some of them may have ended
	lingering []*child // have ended, their output has not; the first to give up first
	limits    limits   // run, and may do so until a time
	aging     []aging  // are said to run, and not old yet, the oldest first; some of them may have ended
}

// aging is a job that is about to be old. It is told by two numbers, so that nothing of one that
// has ended is kept in memory.
type aging struct {
	pid    int32
	forked int64
}

// leastOld is how far alarms about old jobs are apart.
const leastOld = int64(100 * time.Millisecond)

// lateBegin is the age at which a job is said to run: most have ended by then.
const lateBegin = int64(4 * time.Millisecond)

// leastAlarm is how far alarms are apart, so that one serves many jobs.
const leastAlarm = int64(2 * time.Millisecond)

func (a *alarms) open() (err error) {
	a.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	return os.NewSyscallError("timerfd_create", err)
}

// await rings when a job is old enough to be said to run.
func (a *alarms) await(c *child) {
	a.young = append(a.young, c)
	a.set(c.born + lateBegin)
}

// age rings when a job that is said to run is old.
func (a *alarms) age(c *child) {
	a.aging = append(a.aging, aging{int32(c.started.Pid), c.forked})
	a.set(c.forked + spoolAge)
}

// linger rings when the output of a job was waited for until its deadline.
func (a *alarms) linger(c *child) {
	a.lingering = append(a.lingering, c)
	a.set(c.deadline)
}

// set sets the timer, unless it rings before.
func (a *alarms) set(at int64) {
	if a.at != 0 && a.at <= at {
		return
	}
	a.at = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1))}
	// It fails only for bad arguments.
	_ = unix.TimerfdSettime(a.timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// ring returns the jobs that have come of age, those whose output was waited for long enough, those
// that have run for as long as they may, and those that are old, and sets the timer for the next
// ones.
func (a *alarms) ring() (grown, expired, late []*child, old []aging) {
	var count [8]byte
	_, _ = unix.Read(a.timer, count[:]) // so that the epoll does not report it again
	now := proc.Uptime()
	a.at = 0
	a.young, grown = split(a.young, func(c *child) (due, wanted bool) {
		return c.exited || c.born+lateBegin <= now, !c.exited
	})
	a.lingering, expired = split(a.lingering, func(c *child) (due, wanted bool) {
		return c.reaped || c.deadline <= now, !c.reaped
	})
	n := 0
	for n < len(a.aging) && a.aging[n].forked+spoolAge <= now {
		n++
	}
	old, a.aging = slices.Clone(a.aging[:n]), a.aging[n:]
	if len(a.young) > 0 {
		a.set(max(a.young[0].born+lateBegin, now+leastAlarm))
	}
	if len(a.lingering) > 0 {
		a.set(max(a.lingering[0].deadline, now+leastAlarm))
	}
	if len(a.aging) > 0 { // the latest of them last, so that it mostly needs no call of the kernel
		a.set(max(a.aging[0].forked+spoolAge, now+leastOld))
	}
	return grown, expired, a.overdue(now), old
}

// split takes those that are due from the front of a list, and returns the wanted ones among them.
func split(list []*child, look func(*child) (due, wanted bool)) (rest, wanted []*child) {
	for len(list) > 0 {
		due, want := look(list[0])
		if !due {
			break
		}
		if want {
			wanted = append(wanted, list[0])
		}
		list[0] = nil
		list = list[1:]
	}
	return list, wanted
}

// close closes the timer.
func (a *alarms) close() { unix.Close(a.timer) }
