package runner

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reactor is the one goroutine that watches all jobs, in an epoll of its own: their ends, by pidfd, and
// their pipes. A job is over within milliseconds mostly; until it is older, only its end is watched, and
// its pipes hold what it writes.
type reactor struct {
	local *Local
	delay time.Duration // pipeDelay
	flush func()        // called when what watchers were told may go out together

	epoll, timer, wake int      // descriptors: the epoll; in it, a timerfd and an eventfd
	file               *os.File // the epoll, for Go's own
	events             syscall.RawConn
	scratch            []byte
	rest               rest

	mu        sync.Mutex
	children  map[int32]*child // not reaped yet, by process id
	young     []*child         // nobody was told of them yet, the oldest first; ended ones are among them
	lingering []*child         // have ended, their output has not; the first to give up first
	zombies   []*child         // found by threads
	alarm     int64            // when the timer rings; 0: never
	stopped   bool
}

// What an event of the epoll is about, in the upper half of its data; in the lower half is the process id.
const (
	aboutTimer = iota
	aboutWake
	aboutEnd
	aboutStdout
	aboutStderr
)

// lateBegin is the age at which somebody is told that a job runs: most have ended by then.
const lateBegin = 4 * time.Millisecond

// leastAlarm is how far alarms are apart, so that one serves many.
const leastAlarm = 2 * time.Millisecond

func (r *reactor) open(l *Local) (err error) {
	r.local, r.delay, r.flush = l, pipeDelay, func() {}
	r.children = make(map[int32]*child)
	r.scratch = make([]byte, scratchSize)
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if r.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if err := errors.Join(r.add(r.timer, aboutTimer, 0), r.add(r.wake, aboutWake, 0)); err != nil {
		return err
	}
	if err := unix.SetNonblock(r.epoll, true); err != nil { // so that Go waits for it
		return os.NewSyscallError("fcntl", err)
	}
	r.file = os.NewFile(uintptr(r.epoll), "epoll")
	r.events, err = r.file.SyscallConn()
	return err
}

// add watches a descriptor. An end is told once: closing a descriptor takes it out of the epoll only when
// no child has a copy, as each has of all until it executes its program.
func (r *reactor) add(fd, about, pid int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(pid), Pad: int32(about)}
	if about == aboutEnd {
		event.Events |= unix.EPOLLONESHOT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &event))
}

// stop makes Run return.
func (r *reactor) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.stopped = true
		r.ring()
	}
}

// ring wakes the reactor. The lock is held: the descriptor may be closed else.
func (r *reactor) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(r.wake, one[:]) // it fails only where it is rung already
}

// release closes what the reactor has. Nobody rings it any more.
func (r *reactor) release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	unix.Close(r.timer)
	unix.Close(r.wake)
	return errors.Join(r.file.Close(), r.local.null.Close(), r.local.sink.Close())
}

// Run watches the jobs until Close. It waits for its epoll with Go's own: a thread that waits in the
// system instead would have Go's monitor look after it all the time.
func (r *reactor) Run() error {
	events := make([]unix.EpollEvent, 128)
	err := r.events.Read(func(fd uintptr) bool {
		for again := true; again; {
			n := r.poll(int(fd), events)
			again = n == len(events)
			for i := range n {
				again = r.act(&events[i]) || again
			}
			r.flush()
		}
		return r.isStopped()
	})
	return errors.Join(err, r.release())
}

// poll gives the events that there are.
func (r *reactor) poll(fd int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(fd, events, 0)
		if err != unix.EINTR {
			return n
		}
	}
}

func (r *reactor) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// act acts on one event, and tells whether there may be more of the same, of which nobody would be told. It may be about a
// job that another one of the same batch has ended, even about a later one with its number: then it finds nothing to do.
func (r *reactor) act(event *unix.EpollEvent) (more bool) {
	switch event.Pad {
	case aboutTimer:
		r.rang()
		return false
	case aboutWake:
		r.collect()
		return false
	}
	r.mu.Lock()
	c := r.children[event.Fd]
	r.mu.Unlock()
	switch {
	case c == nil:
	case event.Pad == aboutEnd:
		r.exited(c)
	case event.Pad == aboutStdout:
		return r.readable(&c.stdout, c)
	case event.Pad == aboutStderr:
		return r.readable(&c.stderr, c)
	}
	return false
}

// readable reads a pipe, and tells whether it is to be read again.
func (r *reactor) readable(p *capture, c *child) (more bool) {
	p.read(r.scratch, c.exited)
	r.settle(c)
	return !p.closed
}

// watch takes up a new job. It is called by who started it, and wakes nobody.
func (r *reactor) watch(c *child) {
	pid := c.started.Pid
	pidfd := c.pidfd
	r.mu.Lock()
	r.children[int32(pid)] = c
	r.young = append(r.young, c)
	r.remind(c.born + int64(lateBegin))
	r.mu.Unlock()
	if pidfd < 0 || r.add(pidfd, aboutEnd, pid) != nil {
		go r.awaitZombie(c)
	}
}

// awaitZombie waits until the process has ended, where no descriptor of it is to be had, and leaves it
// to be reaped.
func (r *reactor) awaitZombie(c *child) {
	for unix.Waitid(unix.P_PID, c.started.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.zombies = append(r.zombies, c)
		r.ring()
	}
}

// collect ends the jobs that threads have seen end.
func (r *reactor) collect() {
	var rung [8]byte
	_, _ = unix.Read(r.wake, rung[:]) // it is to be quiet again, whatever it counted
	r.mu.Lock()
	zombies := r.zombies
	r.zombies = nil
	r.mu.Unlock()
	for _, c := range zombies {
		r.exited(c)
	}
}

// exited takes what a process that has ended left in its pipes.
func (r *reactor) exited(c *child) {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
		c.pidfd = -1
	}
	if !c.exited {
		c.exited, c.gone = true, bootTime()
	}
	c.stdout.read(r.scratch, true)
	c.stderr.read(r.scratch, true)
	r.settle(c)
}

// settle ends a job whose process and output have ended.
func (r *reactor) settle(c *child) {
	switch {
	case !c.exited:
	case !c.stdout.open() && !c.stderr.open():
		r.end(c)
	case !c.lingers:
		c.lingers = true
		c.deadline = bootTime() + int64(r.delay)
		r.mu.Lock()
		r.lingering = append(r.lingering, c)
		r.remind(c.deadline)
		r.mu.Unlock()
		r.listen(c)
	}
}

// end reaps a job and tells of it.
func (r *reactor) end(c *child) {
	if !c.reap() {
		go r.awaitZombie(c)
		return
	}
	c.describe()
	c.watcher.ended(c)
}

// listen watches a job's pipes. What is not to be had now, for want of memory, is tried again.
func (r *reactor) listen(c *child) (listens bool) {
	return r.hear(&c.stdout, aboutStdout, c) && r.hear(&c.stderr, aboutStderr, c)
}

func (r *reactor) hear(p *capture, about int, c *child) bool {
	if !p.closed && p.epoll == 0 {
		if r.add(p.pipe, about, c.started.Pid) == nil {
			p.epoll = r.epoll
		}
	}
	return p.closed || p.epoll != 0
}
