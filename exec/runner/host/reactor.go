package host

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// reactor is the one goroutine that watches all jobs: their ends, by pidfd, and their pipes. Most
// jobs are over within milliseconds. Until a job is older only its end is watched, and its pipes
// hold what it writes. The pools are the reactor's, too: others leave in the inbox what they ask for.
type reactor struct {
	delay   time.Duration // how long the output of a job that has ended is waited for
	epoll   *epoll
	scratch []byte
	spawner *spawner
	pools   *pools
	stopped bool
	over    chan struct{} // closed when nothing is done any more

	mu       sync.Mutex
	children map[int32]*child // not reaped yet, by process id
	timer    timer            // rings when the reactor must look at one, or at the pools
	inbox    []func()
	shut     bool
}

// pipeDelay is how long the output of a job that has ended is waited for: a process that it left
// behind may hold the pipe open for as long as it likes.
const pipeDelay = time.Second

// newReactor makes what jobs run under as children of this process. Nothing is learned of them unless
// run runs. A process that can't have one ends.
func newReactor() (*reactor, error) {
	spawner, err := newSpawner()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	epoll, err := newEpoll()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	timer, err := newTimer()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	r := &reactor{
		delay: pipeDelay, epoll: epoll, timer: timer, spawner: spawner, over: make(chan struct{}),
		children: make(map[int32]*child), scratch: make([]byte, scratchSize),
	}
	r.pools = newPools(r)
	return r, epoll.add(timer.fd, aboutTimer, 0)
}

// start starts a process. Its watcher hears of it from then on, perhaps before start has returned.
// An error is a *refusedError.
func (r *reactor) start(what spec, w watcher) (*child, error) {
	c, err := r.spawner.spawn(what, w)
	if err == nil {
		r.watch(c)
	}
	return c, err
}

// run watches the jobs until stop, and closes the descriptors then.
func (r *reactor) run() error {
	err := r.epoll.run(r.act, func() (over bool) {
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

// do leaves something for the reactor to do. It fails where that does nothing any more.
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

// await leaves something to be done, and waits for a channel that is closed then.
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
	switch event.Pad {
	case aboutTimer:
		r.onTimer()
		return false
	case aboutWake:
		r.epoll.hush()
		r.drain()
		return false
	case aboutProcess, aboutAnswers:
		r.pools.act(event)
		return false
	}
	r.mu.Lock()
	c := r.children[event.Fd]
	r.mu.Unlock()
	switch {
	case c == nil:
	case event.Pad == aboutEnd:
		r.onExit(c)
	case event.Pad == aboutStdout:
		return r.onOutput(&c.stdout, c)
	case event.Pad == aboutStderr:
		return r.onOutput(&c.stderr, c)
	}
	return false
}

// watch takes up a new job. The goroutine that started it calls this, and wakes nobody.
func (r *reactor) watch(c *child) {
	pid, pidfd := c.started.Pid, c.pidfd
	r.mu.Lock()
	r.children[int32(pid)] = c
	r.set(c.next())
	r.mu.Unlock()
	if r.epoll.add(pidfd, aboutEnd, pid) != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.unseen, c.deadline = true, proc.Uptime()+int64(lookAgain)
		r.set(c.next())
	}
}

// onOutput reads a pipe, and tells whether to read it again.
func (r *reactor) onOutput(p *capture, c *child) (more bool) {
	before := len(p.kept)
	p.read(r.scratch, c.exited)
	if len(p.kept) > before {
		c.watcher.wrote(c)
	}
	r.endIfOver(c)
	return !p.closed
}

// onExit reads what a process that has ended left in its pipes.
func (r *reactor) onExit(c *child) {
	c.mu.Lock()
	c.closePidfd()
	c.mu.Unlock()
	if !c.exited {
		c.exited, c.gone = true, proc.Uptime()
	}
	c.stdout.read(r.scratch, true)
	c.stderr.read(r.scratch, true)
	r.endIfOver(c)
}

// endIfOver ends a job if its process and its output have ended. Where only the process has, it
// waits for the output for a while.
func (r *reactor) endIfOver(c *child) {
	switch {
	case !c.exited:
	case !c.stdout.open() && !c.stderr.open():
		r.end(c)
	case !c.lingers:
		r.linger(c, r.delay)
		r.listen(c)
	}
}

// linger has a job that has ended looked at again.
func (r *reactor) linger(c *child, wait time.Duration) {
	c.lingers, c.deadline = true, proc.Uptime()+int64(wait)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(c.next())
}

// end reaps a job and says that it has ended. One that a debugger holds can't be reaped yet.
func (r *reactor) end(c *child) {
	if !c.end() {
		r.linger(c, lookAgain)
		return
	}
	r.conclude(c)
	if hasZombie(unix.P_ALL, 0) { // a job can make children of ours that nobody waits for: sweep does
		r.pools.tickLater()
	}
	if c.turn != nil {
		r.pools.ended(c)
	}
}

// release ends a job of which nothing is left to be reaped by us. What it has written is in its pipes.
func (r *reactor) release(c *child) {
	c.exited, c.gone = true, proc.Uptime()
	c.mu.Lock()
	c.reaped = true
	c.closePidfd()
	c.mu.Unlock()
	c.stdout.leave(r.scratch)
	c.stderr.leave(r.scratch)
	r.conclude(c)
}

// conclude says how a job has ended.
func (r *reactor) conclude(c *child) {
	r.drop(c)
	c.describe(r.delay)
	c.watcher.ended(c)
}

// drop forgets a job that is reaped. Another one may have its number by now.
func (r *reactor) drop(c *child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pid := int32(c.started.Pid); r.children[pid] == c {
		delete(r.children, pid)
	}
}

// listen watches a job's pipes. It fails where the kernel lacks memory for that at the moment.
func (r *reactor) listen(c *child) (listens bool) {
	return r.hear(&c.stdout, aboutStdout, c) && r.hear(&c.stderr, aboutStderr, c)
}

func (r *reactor) hear(p *capture, about int, c *child) bool {
	if !p.closed && p.epoll == 0 {
		if r.epoll.add(p.pipe, about, c.started.Pid) == nil {
			p.epoll = r.epoll.fd
		}
	}
	return p.closed || p.epoll != 0
}
