package host

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// pools keep processes ready that run jobs. All of it is the reactor's: others leave in the inbox
// what is to be done.
type pools struct {
	spawner *spawner
	reactor *reactor
	tell    func(wire.Message) (told bool) // the worker
	times   times
	timer   int   // a timerfd
	at      int64 // when it rings; 0: never

	byTarget map[string]*pool
	kept     map[int]*kept
	loading  map[*place]bool // the places that are taken, of all pools
	crowded  bool            // a pool waits for one
	ticked   int64
	seeking  seeking
	looks    looks // at launchers' files
	orphans  orphans
	settling []chan struct{}
	leaving  chan struct{} // closed when there is no process any more; nil: there may be more
	news     news
	over     chan struct{} // closed when nothing is done any more

	mu    sync.Mutex
	inbox []func()
	shut  bool
}

// times are how long a process may take: to be ready where nobody says for how long, to answer when
// it is asked for a job, and to end when it is told to, before each of the signals. What is ready
// within quick holds nobody up. And how often is looked at what no event tells of.
type times struct{ boot, quick, answer, quit, tick time.Duration }

var usualTimes = times{boot: 30 * time.Second, quick: time.Second, answer: 5 * time.Second, quit: 5 * time.Second, tick: time.Second}

func newPools(s *spawner, r *reactor) (*pools, error) {
	ps := &pools{
		spawner: s, reactor: r, times: usualTimes, tell: func(wire.Message) bool { return false },
		byTarget: make(map[string]*pool), kept: make(map[int]*kept), loading: make(map[*place]bool), over: make(chan struct{}),
		looks: newLooks(),
	}
	var err error
	if ps.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	r.pools = ps
	return ps, r.epoll.add(ps.timer, aboutPools, 0)
}

// do leaves something for the reactor to do. It fails where that does nothing any more.
func (ps *pools) do(what func()) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.shut {
		return false
	}
	if ps.inbox = append(ps.inbox, what); len(ps.inbox) == 1 {
		ps.reactor.epoll.ring()
	}
	return true
}

// drain does what was left to be done.
func (ps *pools) drain() {
	ps.mu.Lock()
	inbox := ps.inbox
	ps.inbox = nil
	ps.mu.Unlock()
	for _, what := range inbox {
		what()
	}
}

// close lets go of all processes: they read the end of what they are told, and end.
func (ps *pools) close() {
	ps.mu.Lock()
	ps.shut = true
	ps.mu.Unlock()
	for _, k := range ps.kept {
		ps.unwatch(k)
		k.close()
	}
	ps.disown()
	close(ps.over)
	unix.Close(ps.timer)
}

// wakeAt rings at an uptime, or before.
func (ps *pools) wakeAt(at int64) {
	if ps.at != 0 && ps.at <= at {
		return
	}
	ps.at = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, 1))}
	_ = unix.TimerfdSettime(ps.timer, unix.TFD_TIMER_ABSTIME, &spec, nil) // it fails only for bad arguments
}

// act acts on an event of a kept process, or the timer's.
func (ps *pools) act(event *unix.EpollEvent) {
	if event.Pad == aboutPools {
		ps.onTimer()
		return
	}
	k := ps.kept[int(event.Fd)]
	switch {
	case k == nil: // an earlier event of the same batch was its last
	case event.Pad == aboutKept:
		ps.onGone(k)
	case event.Pad == aboutAnswers:
		ps.hear(k, false)
	case event.Pad == aboutBootings:
		k.hearBoot()
	}
}

// onTimer acts on what has lasted for too long, and looks after what no event tells of.
func (ps *pools) onTimer() {
	var count [8]byte
	_, _ = unix.Read(ps.timer, count[:]) // so that the epoll does not report it again
	ps.at = 0
	now := proc.Uptime()
	for _, k := range ps.kept {
		k.expire(now)
	}
	if ps.ticks() && ps.ticked+int64(ps.times.tick) <= now {
		ps.ticked = now
		ps.tick(now)
	}
	ps.news.changed = ps.news.changed || ps.crowded
	for _, k := range ps.kept {
		if k.deadline != 0 {
			ps.wakeAt(k.deadline)
		}
	}
	for _, p := range ps.byTarget {
		p.dirty = true
		if p.next > now {
			ps.wakeAt(p.next)
		}
	}
	if ps.ticks() {
		ps.wakeAt(ps.ticked + int64(ps.times.tick))
	}
}

// ticks tells whether there is anything that no event tells of.
func (ps *pools) ticks() bool { return len(ps.byTarget) > 0 || ps.orphans.adopts || ps.orphans.strays }

// work does, once for all that came together, what follows from it.
func (ps *pools) work() {
	for target, p := range ps.byTarget {
		if !p.dirty {
			continue
		}
		p.dirty, ps.news.changed = false, true
		p.assign()
		p.retire()
		if p.removed && p.booting == 0 && len(p.processes) == 0 {
			delete(ps.byTarget, target)
		}
	}
	if ps.news.changed {
		ps.replenish()
	}
	ps.publish()
	if len(ps.settling) > 0 && !ps.unsettled() {
		for _, settled := range ps.settling {
			close(settled)
		}
		ps.settling = nil
	}
	if ps.leaving != nil && len(ps.byTarget) == 0 {
		close(ps.leaving)
		ps.leaving = nil
	}
}

// boot starts a process of a pool, on a goroutine: a start takes as long as its program's execution.
func (ps *pools) boot(p *pool, now int64) {
	held := p.takePlace()
	p.booting++
	p.booted = now
	def, version, defined := p.def, p.version, p.defined
	if def.Mode == "fork" {
		ps.adopt()
	}
	go func() {
		stamp := stampOf(&def)
		k, err := ps.spawner.keep(&def)
		if k != nil {
			k.version, k.defined, k.stamp = version, defined, stamp
		}
		if !ps.do(func() { ps.spawned(p, held, k, err) }) && k != nil {
			k.close()
		}
	}()
}

// spawned takes up a process that was started. Why one was not says nothing of a pool that was
// removed since, be it back or not.
func (ps *pools) spawned(p *pool, held *place, k *kept, err error) {
	p.dirty = true
	if err != nil {
		p.booting--
		if held.leave() {
			p.fails(nil, notReady, err.Error())
		}
		return
	}
	k.pool, k.place = p, held
	ps.kept[k.started.Pid] = k
	p.processes = append(p.processes, k)
	if k.version != p.version {
		k.due = p.reason
	}
	if err := ps.watch(k); err != nil {
		k.unfit(err.Error())
		go func() { // without the epoll
			for unix.Waitid(unix.P_PID, k.started.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			}
			ps.do(func() { ps.onGone(k) })
		}()
		return
	}
	k.enter(booting, p.bootTimeout())
	k.outdated()
}

// watch has the reactor learn of a process's end, of what it says, and of what it writes before it
// is ready.
func (ps *pools) watch(k *kept) error {
	pid := k.started.Pid
	for fd, about := range map[int]int{k.pidfd: aboutKept, k.answers: aboutAnswers, k.output[0]: aboutBootings, k.output[1]: aboutBootings} {
		if err := ps.reactor.epoll.add(fd, about, pid); err != nil {
			return err
		}
	}
	return nil
}

// unwatch ends that. A descriptor is taken out before it is closed: see epoll.add.
func (ps *pools) unwatch(k *kept) {
	output := k.output
	if c := k.turn; c != nil {
		for i, of := range []*capture{&c.stdout, &c.stderr} {
			if of.epoll != 0 { // the job listens to it, and goes on with that when the process is gone
				output[i] = -1
			}
		}
	}
	for _, fd := range []int{k.pidfd, k.answers, output[0], output[1]} {
		if fd >= 0 {
			_ = unix.EpollCtl(ps.reactor.epoll.fd, unix.EPOLL_CTL_DEL, fd, nil) // it may not be there
		}
	}
}

// unsettled tells whether a process was asked for a job and has not answered.
func (ps *pools) unsettled() bool {
	for _, k := range ps.kept {
		if k.state == asked {
			return true
		}
	}
	return false
}
