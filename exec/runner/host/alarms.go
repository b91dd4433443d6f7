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
func (j *job) next() (at int64) {
	at = never
	if j.again != 0 {
		at = j.again
	}
	if j.exited {
		return at
	}
	if !j.grown {
		at = min(at, j.born+lateBegin)
	}
	if limit, ever := j.over.Due(); ever && !j.missed {
		at = min(at, limit)
	}
	return at
}

// onTimer says that jobs run that have come of age, stops those that have run for as long as they
// may, and ends those whose output was waited for.
func (r *reactor) onTimer() {
	now := proc.Uptime()
	r.mu.Lock()
	r.timer.rung()
	var due []*job
	for _, j := range r.children {
		if j.next() <= now {
			due = append(due, j)
		}
	}
	r.mu.Unlock()
	for _, j := range due {
		r.look(j, now)
	}
	r.pools.onTimer(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	next := never
	for _, j := range r.children {
		next = min(next, j.next())
	}
	r.timer.set(max(next, now+leastAlarm))
}

// ringAt has the timer ring.
func (r *reactor) ringAt(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.set(at)
}

// look does what is due for a job.
func (r *reactor) look(j *job, now int64) {
	if again := j.again; again != 0 && again <= now {
		switch j.again = 0; {
		case j.exited:
			r.end(j)
		case j.hasEnded():
			r.onExit(j)
		default:
			j.again = now + int64(lookAgain)
		}
	}
	if j.exited {
		return
	}
	if !j.grown && j.born+lateBegin <= now {
		if j.grown = r.listen(j); !j.grown { // it is tried again
			j.born = now
		}
		r.watcher.begun(j)
	}
	if at, ever := j.over.Due(); ever && at <= now && !j.missed {
		j.missed = !j.overrun()
	}
}

// overrun sends the signals that are due to the job's group. It sends none, and fails, where the
// process is gone: then its end came first, though that was not seen yet.
func (j *job) overrun() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reaped || j.hasEnded() {
		return false
	}
	for _, signo := range j.over.Next(proc.Uptime()) {
		j.killed = j.killed || signo == unix.SIGKILL
		_ = j.send(signo) // the group is there as long as its leader is not reaped
	}
	return true
}

// hasEnded tells whether the process has ended, be it reaped or not, though nobody was told. One of which
// there is no descriptor is looked for.
func (j *job) hasEnded() bool {
	if j.pidfd >= 0 {
		return proc.Over(j.pidfd)
	}
	who, there := proc.RelativesOf(j.started.Pid)
	return !there || who.Ended || who.StartTime != j.started.StartTime
}

// hasZombie tells whether a child of ours has ended that is not reaped. One that has made us its tracer is
// told of when it stops, too.
func hasZombie() bool {
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
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

// set sets the timer, unless it rings before, or never is to.
func (t *timer) set(at int64) {
	if at == never || t.at != 0 && t.at <= at {
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
