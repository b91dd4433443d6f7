package host

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// The reactor, and the epoll and the timer that wake it.

// reactor is the one goroutine that watches all jobs: their ends, by pidfd, and their pipes. Most
// jobs are over within milliseconds. Until a job is older only its end is watched, and its pipes
// hold what it writes. The pools are the reactor's, too: others leave in the inbox what they ask for.
type reactor struct {
	delay   time.Duration // how long the output of a job that has ended is waited for
	epoll   *epoll
	scratch []byte
	spawner *spawner
	pools   *pools
	watcher watcher
	stopped bool
	over    chan struct{} // closed when nothing is done any more

	mu       sync.Mutex
	children map[int32]*job // not reaped yet, by process id
	timer    timer          // rings when the reactor must look at one, or at the pools
	inbox    []func()
	shut     bool
}

// pipeDelay is how long the output of a job that has ended is waited for: a process that it left
// behind may hold the pipe open for as long as it likes.
const pipeDelay = time.Second

// newReactor makes a reactor, under which jobs run as children of this process. The reactor learns nothing
// of them unless run runs. If newReactor fails, the runner ends.
func newReactor(w watcher) (*reactor, error) {
	spawner, err := newSpawner()
	if err != nil {
		return nil, err
	}
	epoll, err := newEpoll()
	if err != nil {
		return nil, err
	}
	timer, err := newTimer()
	if err != nil {
		return nil, err
	}
	r := &reactor{
		delay: pipeDelay, epoll: epoll, timer: timer, spawner: spawner, watcher: w, over: make(chan struct{}),
		children: make(map[int32]*job), scratch: make([]byte, scratchSize),
	}
	r.pools = &pools{reactor: r, times: usualTimes, processes: make(map[int]*poolProcess), slow: make(slow, mostSlow)}
	return r, epoll.add(timer.fd, aboutTimer, 0)
}

// start starts a job in a process of its own. The watcher hears of it from then on.
func (r *reactor) start(j *job) {
	var refused *refusedError
	if err := r.spawner.spawn(j); errors.As(err, &refused) {
		r.watcher.refused(j, refused.text, refused.class)
		return
	}
	r.watch(j)
}

// run watches the jobs until stop, and closes the descriptors then.
func (r *reactor) run() error {
	err := r.epoll.run(r.act, func() (over bool) {
		r.drain()
		r.pools.work()
		return r.stopped
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true // nobody rings any more
	r.pools.close()
	close(r.over)
	r.timer.close()
	return errors.Join(err, r.epoll.close(), r.spawner.null.Close())
}

// stop makes run return. Jobs run on.
func (r *reactor) stop() { r.do(func() { r.stopped = true }) }

// do leaves something for the reactor to do. It is false if the reactor has ended.
func (r *reactor) do(what func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false
	}
	if r.inbox = append(r.inbox, what); len(r.inbox) == 1 {
		r.epoll.ring()
	}
	return true
}

// await leaves something for the reactor to do, and waits until done is closed or the reactor has ended.
func (r *reactor) await(done chan struct{}, what func()) {
	if !r.do(what) {
		return
	}
	select {
	case <-done:
	case <-r.over:
	}
}

// drain does what was left to be done.
func (r *reactor) drain() {
	r.mu.Lock()
	inbox := r.inbox
	r.inbox = nil
	r.mu.Unlock()
	for _, what := range inbox {
		what()
	}
}

// act acts on one event, and tells whether there may be more of the same that the epoll will not
// report. An earlier event of the same batch may have ended the job, and a later job may have its
// number by now: then act finds nothing to do.
func (r *reactor) act(event *unix.EpollEvent) (more bool) {
	r.mu.Lock()
	j := r.children[event.Fd]
	r.mu.Unlock()
	k := r.pools.processes[int(event.Fd)]
	switch {
	case event.Pad == aboutTimer:
		r.onTimer()
	case event.Pad == aboutProcess && k != nil:
		r.pools.onGone(k)
	case event.Pad == aboutAnswers && k != nil:
		r.pools.hear(k)
	case j == nil:
	case event.Pad == aboutEnd:
		r.onExit(j)
	case event.Pad == aboutStdout:
		return r.onOutput(&j.stdout, j)
	case event.Pad == aboutStderr:
		return r.onOutput(&j.stderr, j)
	}
	return false
}

// enter has a job looked at when that is due.
func (r *reactor) enter(j *job) {
	at := j.next()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.children[int32(j.started.Pid)] = j
	r.timer.set(at)
}

// watch takes up a new job. The goroutine that started it calls this, and wakes nobody.
func (r *reactor) watch(j *job) {
	pid, pidfd := j.started.Pid, j.pidfd
	r.enter(j)
	if r.epoll.add(pidfd, aboutEnd, pid) != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		j.again = proc.Uptime() + int64(lookAgain)
		r.timer.set(j.next())
	}
}

// onOutput reads a pipe, and tells whether to read it again.
func (r *reactor) onOutput(p *capture, j *job) (more bool) {
	p.read(r.scratch, j.exited)
	r.endIfOver(j)
	return !p.closed
}

// onExit reads what a process that has ended left in its pipes.
func (r *reactor) onExit(j *job) {
	j.mu.Lock()
	j.closePidfd()
	j.mu.Unlock()
	if !j.exited {
		j.exited, j.gone, j.again = true, proc.Uptime(), 0
	}
	j.stdout.read(r.scratch, true)
	j.stderr.read(r.scratch, true)
	r.endIfOver(j)
}

// endIfOver ends a job if its process and its output have ended. Where only the process has, it
// waits for the output for a while.
func (r *reactor) endIfOver(j *job) {
	switch {
	case !j.exited:
	case !j.stdout.open() && !j.stderr.open():
		r.end(j)
	case j.again == 0:
		r.linger(j, r.delay)
		r.listen(j)
	}
}

// linger has a job that has ended looked at again.
func (r *reactor) linger(j *job, wait time.Duration) {
	j.again = proc.Uptime() + int64(wait)
	r.ringAt(j.next())
}

// end reaps a job and says that it has ended. One that a debugger holds can't be reaped yet.
func (r *reactor) end(j *job) {
	if !j.end() {
		r.linger(j, lookAgain)
		return
	}
	r.conclude(j)
	if hasZombie() { // a job can leave us children that nobody waits for: sweep reaps them
		r.pools.tickLater()
	}
	if j.turn != nil {
		r.pools.ended(j)
	}
}

// release ends a job of which nothing is left to be reaped by us. What it has written is in its pipes.
func (r *reactor) release(j *job) {
	j.exited, j.gone = true, proc.Uptime()
	j.mu.Lock()
	j.reaped = true
	j.closePidfd()
	j.mu.Unlock()
	j.stdout.leave(r.scratch)
	j.stderr.leave(r.scratch)
	r.conclude(j)
}

// conclude says how a job has ended.
func (r *reactor) conclude(j *job) {
	r.drop(j)
	j.describe(r.delay)
	r.watcher.ended(j)
}

// drop forgets a job that is reaped. Another one may have its number by now.
func (r *reactor) drop(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pid := int32(j.started.Pid); r.children[pid] == j {
		delete(r.children, pid)
	}
}

// listen watches a job's pipes. It fails where the kernel lacks memory for that at the moment.
func (r *reactor) listen(j *job) (listens bool) {
	return r.hear(&j.stdout, aboutStdout, j) && r.hear(&j.stderr, aboutStderr, j)
}

func (r *reactor) hear(p *capture, about int, j *job) bool {
	if !p.closed && p.epoll == 0 {
		if r.epoll.add(p.pipe, about, j.started.Pid) == nil {
			p.epoll = r.epoll.fd
		}
	}
	return p.closed || p.epoll != 0
}

// epoll waits for many descriptors at once, and for wakes.
type epoll struct {
	fd    int
	file  *os.File // for Go's own; its deadline is what wakes
	ready syscall.RawConn
}

// What an event is about, in the upper half of its data; the process id is in the lower.
const (
	aboutTimer = iota
	aboutEnd
	aboutStdout
	aboutStderr
	aboutProcess // the end of a pool process
	aboutAnswers // what it says
)

func newEpoll() (*epoll, error) {
	e := &epoll{}
	var err error
	if e.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(e.fd, true); err != nil { // so that Go waits for it
		return nil, os.NewSyscallError("fcntl", err)
	}
	e.file = os.NewFile(uintptr(e.fd), "epoll")
	e.ready, err = e.file.SyscallConn()
	return e, err
}

// add watches a descriptor. An end is reported once: a closed descriptor stays in the epoll as long
// as a child has a copy, and each child has copies of all until it executes its program.
func (e *epoll) add(fd, about, pid int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(pid), Pad: int32(about)}
	if about == aboutEnd {
		event.Events |= unix.EPOLLONESHOT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &event))
}

// ring wakes the waiting goroutine.
func (e *epoll) ring() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) } // it fails only where it is closed

// run passes events to act in batches, and calls turned after each, and after a ring; it returns when
// turned says that it is over and nothing more is there. An act that returns true left something that the
// epoll will not report: then the next batch follows at once. Run waits with Go's own epoll: Go's monitor
// would look after a thread that waits in the system instead, all the time.
func (e *epoll) run(act func(*unix.EpollEvent) (more bool), turned func() (over bool)) (err error) {
	events := make([]unix.EpollEvent, 128)
	for over := false; !over && err == nil; {
		err = e.ready.Read(func(uintptr) bool {
			for {
				n, err := unix.EpollWait(e.fd, events, 0)
				again := n == len(events) || err == unix.EINTR
				for i := range n {
					again = act(&events[i]) || again
				}
				if over = turned(); !again {
					return over
				}
			}
		})
		if errors.Is(err, os.ErrDeadlineExceeded) { // somebody has rung
			err = e.file.SetReadDeadline(time.Time{})
			over = turned()
		}
	}
	return err
}

func (e *epoll) close() error { return e.file.Close() }

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
