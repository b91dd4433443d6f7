package host

import (
	"cmp"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// pools keep processes ready that run jobs. All of it is the reactor's.
type pools struct {
	reactor *reactor
	times   times

	all       []*pool // those, too, that are removed and have processes still
	processes map[int]*poolProcess
	tickAt    int64 // the uptime of the next tick; 0: there is none
	slow      slow
	adopts    bool          // those whose parents are gone are our children by now; only while there are pools that fork
	zombies   map[int]bool  // were seen as such the last time, and are not ours
	leaving   chan struct{} // closed when there is no process any more; nil: there may be more

	changed bool // the worker may have to be told how the pools stand
	notes   []wire.Note
	told    []wire.Standing
	toldAt  int64 // the uptime
}

// times are how long a process may take: to be ready where nobody says for how long, to answer when
// it is asked for a job, and to end when it is told to, before each of the signals. And how often is
// looked at what no event tells of.
type times struct{ boot, answer, quit, tick time.Duration }

var usualTimes = times{boot: 30 * time.Second, answer: 5 * time.Second, quit: 5 * time.Second, tick: time.Second}

// close lets go of all processes: they read the end of what they are told, and end.
func (ps *pools) close() {
	for _, k := range ps.processes {
		ps.unwatch(k)
		k.close()
	}
	ps.adopt(false)
}

// onTimer acts on what has lasted for too long, and looks after what no event tells of.
func (ps *pools) onTimer(now int64) {
	for _, k := range ps.processes {
		k.expire(now)
	}
	if ps.tickAt != 0 && ps.tickAt <= now {
		ps.tickAt = 0
		ps.tick(now)
		if len(ps.all) > 0 || ps.adopts || len(ps.zombies) > 0 || hasZombie() {
			ps.tickLater()
		}
	}
	next := never
	for _, k := range ps.processes {
		if k.deadline != 0 {
			next = min(next, k.deadline)
		}
	}
	for _, p := range ps.all {
		switch {
		case p.next > now:
			next = min(next, p.next)
		case p.next != 0:
			p.next, p.dirty = 0, true
		}
	}
	if ps.tickAt != 0 {
		next = min(next, ps.tickAt)
	}
	if ps.changed {
		next = min(next, ps.toldAt+newsTime)
	}
	ps.reactor.ringAt(next)
}

// tickLater has the next tick come.
func (ps *pools) tickLater() {
	if ps.tickAt == 0 {
		ps.tickAt = proc.Uptime() + int64(ps.times.tick)
		ps.reactor.ringAt(ps.tickAt)
	}
}

// tick looks after what no event tells of.
func (ps *pools) tick(now int64) {
	for _, k := range ps.processes {
		if ps.onGone(k); k.state == leaving { // the epoll may not tell of its end
			continue
		}
		def := &k.pool.def
		switch {
		case k.state == booting:
			k.readAway(true)
		case k.state == idle:
			k.strays("between two jobs")
			if def.IdleTimeout > 0 && now-k.since > int64(def.IdleTimeout) && k.due == "" {
				k.replace("idle_timeout", true)
				k.pool.wanted = k.pool.booting + k.pool.count((*poolProcess).stays)
			}
		case k.state == busy && k.mode == "fork" && k.deadline == 0 && k.why == "" && k.turn.hasEnded():
			k.lasts = int64(ps.times.answer)
			k.deadline = now + k.lasts
		}
		if (k.state == idle || k.state == busy) && k.due == "" {
			if def.MaxAge > 0 && now-k.born > int64(def.MaxAge) {
				k.replace("max_age", false)
			}
			k.weigh()
		}
	}
	for _, p := range ps.all {
		p.dirty = true
		p.check()
	}
	ps.sweep()
}

// work does, once for all that came together, what follows from it.
func (ps *pools) work() {
	now := proc.Uptime()
	for _, p := range ps.all {
		if !p.dirty {
			continue
		}
		p.dirty, ps.changed = false, true
		p.assign()
		p.retire()
		for p.lacks(now) {
			ps.boot(p, now)
		}
	}
	ps.all = slices.DeleteFunc(ps.all, func(p *pool) bool { return p.removed && p.booting == 0 && len(p.processes) == 0 })
	ps.publish()
	if ps.leaving != nil && len(ps.all) == 0 {
		close(ps.leaving)
		ps.leaving = nil
	}
}

// boot starts a process of a pool, on a goroutine: a start takes as long as its program's execution.
// One that nobody wants any more when it is there is killed.
func (ps *pools) boot(p *pool, now int64) {
	p.booting++
	if p.next = 0; p.delay > 0 {
		p.next = now + p.delay
	}
	def, version := p.def, p.version
	if def.Mode == "fork" {
		ps.adopt(true)
	}
	go func() {
		var k *poolProcess
		var err error
		stamp := ""
		ps.slow.do(func() {
			stamp = stampOf(&def)
			k, err = ps.reactor.spawner.keep(&def)
		})
		if k != nil {
			k.pool, k.version, k.stamp = p, version, stamp
		}
		if !ps.reactor.do(func() { ps.booted(p, k, err) }) && k != nil {
			k.close()
		}
	}()
}

// booted takes up a process that was started.
func (ps *pools) booted(p *pool, k *poolProcess, err error) {
	p.dirty = true
	if err != nil {
		p.booting--
		p.fails(nil, "does not get ready", err.Error())
		return
	}
	ps.processes[k.started.Pid] = k
	p.processes = append(p.processes, k)
	if err := ps.watch(k); err != nil {
		k.unfit(err.Error())
		return
	}
	k.enter(booting, cmp.Or(p.def.BootTimeout, ps.times.boot))
	if p.removed || k.version != p.version {
		k.kill("it was replaced, or its target removed")
	}
}

// watch has the reactor learn of a process's end, and of what it says.
func (ps *pools) watch(k *poolProcess) error {
	epoll, pid := ps.reactor.epoll, k.started.Pid
	return errors.Join(epoll.add(k.pidfd, aboutProcess, pid), epoll.add(k.answers.ours, aboutAnswers, pid))
}

// unwatch ends that. A descriptor is taken out before it is closed: see epoll.add.
func (ps *pools) unwatch(k *poolProcess) {
	for _, fd := range []int{k.pidfd, k.answers.ours} {
		if fd >= 0 {
			_ = unix.EpollCtl(ps.reactor.epoll.fd, unix.EPOLL_CTL_DEL, fd, nil) // it may not be there
		}
	}
}

// newsTime is how far messages to the worker are apart; mostNotes is how many notes wait for one.
const (
	newsTime  = int64(100 * time.Millisecond)
	mostNotes = 100
)

// publish tells the worker what has changed, all of it at once, some times a second.
func (ps *pools) publish() {
	if !ps.changed {
		return
	}
	now := proc.Uptime()
	if now < ps.toldAt+newsTime {
		ps.reactor.ringAt(ps.toldAt + newsTime)
		return
	}
	ps.changed, ps.toldAt = false, now
	var standings []wire.Standing
	for _, p := range ps.all {
		if !p.removed {
			standings = append(standings, p.standing())
		}
	}
	if len(ps.notes) == 0 && reflect.DeepEqual(standings, ps.told) {
		return
	}
	if ps.reactor.watcher.tell(wire.Message{Kind: wire.Pools, Standings: standings, Notes: ps.notes}) {
		ps.notes, ps.told = nil, standings
	}
}

// note adds a note. The oldest goes where there are too many.
func (ps *pools) note(level slog.Level, p *pool, k *poolProcess, job int64, text string) {
	note := wire.Note{Level: level, Target: p.def.Target, Job: job, Text: text}
	if k != nil {
		note.Pid = k.started.Pid
	}
	if len(ps.notes) == mostNotes {
		ps.notes = ps.notes[1:]
	}
	ps.notes, ps.changed = append(ps.notes, note), true
}

func (ps *pools) warn(p *pool, k *poolProcess, job int64, text string) {
	ps.note(slog.LevelWarn, p, k, job, text)
}

// info notes what is in order.
func (ps *pools) info(p *pool, k *poolProcess, text string) { ps.note(slog.LevelInfo, p, k, 0, text) }

// find is the pool of a target; nil: there is none that is wanted.
func (ps *pools) find(target string) *pool {
	for _, p := range ps.all {
		if p.def.Target == target && !p.removed {
			return p
		}
	}
	return nil
}

// What others ask of the pools. None of it waits, but for left and shutdown.

// start passes a job to a pool. What becomes of it its watcher hears.
func (ps *pools) start(target string, j *job) {
	ps.reactor.do(func() {
		p := ps.find(target)
		switch {
		case p == nil:
			ps.reactor.watcher.refused(j, "the runner keeps no pool for target "+target, wire.Short)
		case p.unready != "":
			ps.reactor.watcher.refused(j, p.unready, wire.Program)
		default:
			j.turn.pool = p
			p.waiting = append(p.waiting, j)
			p.dirty = true
		}
	})
}

// withdraw takes a job back that no process was asked for.
func (ps *pools) withdraw(j *job) {
	ps.reactor.do(func() {
		p := j.turn.pool
		if p == nil {
			return // it was refused
		}
		if i := slices.Index(p.waiting, j); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			ps.reactor.watcher.refused(j, "it was taken back while it waited for a process", wire.Short)
		}
	})
}

// set says which pools the worker wants. A newer worker may know more modes: such a pool is not there
// for it.
func (ps *pools) set(wanted []wire.Pool) {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(w wire.Pool) bool { return phasesOf[w.Mode] == nil || len(w.Argv) == 0 })
	ps.reactor.do(func() {
		for _, p := range ps.all {
			if !p.removed && !slices.ContainsFunc(wanted, func(w wire.Pool) bool { return w.Target == p.def.Target }) {
				p.remove()
			}
		}
		for _, w := range wanted {
			p := ps.find(w.Target)
			if p == nil {
				p = &pool{pools: ps, def: w, recycled: make(map[string]int64)}
				ps.all = append(ps.all, p)
			}
			p.define(w)
		}
		ps.changed = true
		ps.tickLater()
	})
}

// joined says that a worker is there, which knows nothing of the pools yet.
func (ps *pools) joined() {
	ps.reactor.do(func() { ps.changed, ps.told, ps.toldAt = true, nil, 0 })
}

// left says that the worker is gone. What no process was asked for yet is not started: the next
// worker does not hear of it, and asks anew.
func (ps *pools) left() {
	done := make(chan struct{})
	ps.reactor.await(done, func() {
		for _, p := range ps.all {
			p.refuseAll("the worker is gone", wire.Short)
		}
		close(done)
	})
}

// shutdown ends all processes, and waits for that: each has its time to end by itself.
func (ps *pools) shutdown() {
	gone := make(chan struct{})
	ps.set(nil)
	ps.reactor.await(gone, func() { ps.leaving = gone })
}
