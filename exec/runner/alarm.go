package runner

import (
	"time"

	"golang.org/x/sys/unix"
)

// remind sets the timer, unless it rings before. The lock is held.
func (r *reactor) remind(at int64) {
	if r.alarm != 0 && r.alarm <= at {
		return
	}
	r.alarm = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1))}
	// It fails only for arguments that are none.
	_ = unix.TimerfdSettime(r.timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// rang tells of jobs that have reached an age, and gives up waiting for the output of others.
func (r *reactor) rang() {
	var count [8]byte
	_, _ = unix.Read(r.timer, count[:]) // it is to be quiet again
	now := bootTime()
	r.mu.Lock()
	grown := r.grown(now)
	expired := r.expired(now)
	r.alarm = 0
	if len(r.young) > 0 {
		r.remind(max(r.young[0].born+int64(lateBegin), now+int64(leastAlarm)))
	}
	if len(r.lingering) > 0 {
		r.remind(max(r.lingering[0].deadline, now+int64(leastAlarm)))
	}
	r.mu.Unlock()
	for _, c := range grown {
		if !r.listen(c) {
			r.retry(c)
		}
		c.watcher.begun(c)
	}
	for _, c := range expired {
		r.end(c)
	}
}

// grown takes those that are not young any more, and have not ended. The lock is held.
func (r *reactor) grown(now int64) (grown []*child) {
	for len(r.young) > 0 {
		c := r.young[0]
		if !c.exited && c.born+int64(lateBegin) > now {
			break
		}
		r.young[0] = nil
		r.young = r.young[1:]
		if !c.exited {
			grown = append(grown, c)
		}
	}
	return grown
}

// retry has the pipes of a job listened to later.
func (r *reactor) retry(c *child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.born = bootTime()
	r.young = append(r.young, c)
	r.remind(c.born + int64(lateBegin))
}

// expired takes those whose output was waited for long enough. The lock is held.
func (r *reactor) expired(now int64) (expired []*child) {
	for len(r.lingering) > 0 {
		c := r.lingering[0]
		if !c.reaped && c.deadline > now {
			break
		}
		r.lingering[0] = nil
		r.lingering = r.lingering[1:]
		if !c.reaped {
			expired = append(expired, c)
		}
	}
	return expired
}

// bootTime is the time since the boot in nanoseconds, by the clock of processes' start times.
func bootTime() int64 {
	var t unix.Timespec
	// It fails only for clocks that there are not.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return t.Nano()
}

// tick is the unit of start times: Linux's USER_HZ is 100 on whatever Go runs on.
const tick = int64(10 * time.Millisecond)

// forkTime is the start time of a process that was made between two moments: where both are
// in the same tick, so was that.
func forkTime(pid int, before, after int64) uint64 {
	if before/tick == after/tick {
		return uint64(after / tick)
	}
	return startTime(pid)
}
