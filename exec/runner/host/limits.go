package host

import (
	"container/heap"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// limits are the jobs that may run for so long only, the one that is due first in front. One that
// has ended is taken out at once: there may be many short jobs whose limits are long.
type limits []*child

// Len implements heap.Interface, as the next four do.
func (l limits) Len() int           { return len(l) }
func (l limits) Less(i, j int) bool { return l[i].due() < l[j].due() }

func (l limits) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push implements heap.Interface.
func (l *limits) Push(c any) {
	c.(*child).place = len(*l)
	*l = append(*l, c.(*child))
}

// Pop implements heap.Interface.
func (l *limits) Pop() any {
	last := len(*l) - 1
	c := (*l)[last]
	(*l)[last], *l = nil, (*l)[:last]
	c.place = -1
	return c
}

// limit rings when a job is to get its next signal, if it is to get one. Callers must hold the
// reactor's mu.
func (a *alarms) limit(c *child) {
	if at, ever := c.over.Due(); ever {
		heap.Push(&a.limits, c)
		a.set(at)
	}
}

// overdue takes out the jobs that are to get a signal now. Callers must hold the reactor's mu.
func (a *alarms) overdue(now int64) (late []*child) {
	for len(a.limits) > 0 && a.limits[0].due() <= now {
		late = append(late, heap.Pop(&a.limits).(*child))
	}
	if len(a.limits) > 0 {
		a.set(max(a.limits[0].due(), now+leastAlarm))
	}
	return late
}

// due is when the job gets its next signal.
func (c *child) due() int64 {
	at, _ := c.over.Due()
	return at
}

// limit sends a job that has run for longer than it may the signals that are due, and awaits the
// time of the next ones.
func (r *reactor) limit(c *child) {
	if c.exited || !c.overrun() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.limit(c)
}

// unlimit takes a job that has ended out of those that are to get a signal. Most jobs have no limit,
// and need no lock.
func (r *reactor) unlimit(c *child) {
	if _, ever := c.over.Due(); !ever {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.place >= 0 {
		heap.Remove(&r.alarms.limits, c.place)
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
		return isOver(c.turn.pidfd)
	}
	return isZombie(c.started.Pid)
}

// isZombie tells whether a child of ours has ended that is not reaped.
func isZombie(pid int) bool {
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	}
	return err == nil && info.Signo != 0
}
