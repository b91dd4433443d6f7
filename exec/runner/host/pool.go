package host

import (
	"fmt"
	"slices"
	"time"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// pool is the processes that are kept for the jobs of a target.
type pool struct {
	pools     *pools
	def       wire.Pool
	processes []*kept  // until they are reaped
	waiting   []*child // for a process, the oldest first
	wanted    int      // processes that there are to be
	dirty     bool     // something has changed
	removed   bool     // it is to end

	version int    // counts up when all processes are to be replaced
	reason  string // why, the last time
	defined int    // counts up when what is to be started has changed

	booting  int // processes that are not ready yet
	places   map[*place]bool
	slow     bool   // the last one has taken long to load
	booted   int64  // when the last one was started
	delay    int64  // after the last one that failed
	next     int64  // no process is started before that
	putOffAt int64  // when that was decided
	useless  int    // processes in a row that got ready, and ended without having done a job
	failure  string // of the last one; "": it has got ready
	unready  string // why none gets ready, or does a job
	failed   int64  // since when they fail, unix milliseconds; 0: they do not
	checks   bool   // its files are being looked at

	tight       tight
	boots, jobs int64
	recycled    map[string]int64
}

// The least and the longest time between a process that did not get ready, and the next.
const (
	leastDelay   = int64(time.Second)
	longestDelay = int64(30 * time.Second)
)

func (p *pool) bootTimeout() time.Duration {
	if p.def.BootTimeout > 0 {
		return p.def.BootTimeout
	}
	return p.pools.times.boot
}

// define says what the pool is to be from now on.
func (p *pool) define(def wire.Pool) {
	was := p.def
	if p.removed {
		p.comeBack()
	}
	p.def, p.wanted, p.removed, p.dirty = def, def.Slots, false, true
	if was.MaxMemory != def.MaxMemory {
		p.tight = tight{}
	}
	if def.Wish != 0 && def.Wish != was.Wish {
		p.renew(reasonOf(def.Why))
	}
	if was.Mode != def.Mode || was.Dir != def.Dir || !slices.Equal(was.Argv, def.Argv) || !slices.Equal(was.Env, def.Env) {
		p.renew("reload")
		p.defined++
		p.tight = tight{}
		if p.failed != 0 { // what fails from now on is another launcher
			p.failed = time.Now().UnixMilli()
		}
		for _, k := range p.processes {
			k.outdated()
		}
		p.slow = false // for all that is known of this one
	}
}

// comeBack has a pool that was removed, and still has processes, stand as one that never was.
func (p *pool) comeBack() {
	p.soon()
	p.useless, p.failure, p.failed, p.unready = 0, "", 0, ""
	p.tight, p.boots, p.jobs, p.recycled = tight{}, 0, 0, make(map[string]int64)
}

// outdated ends a process that is loaded as the pool was to be before, or for a pool that is wanted
// no more: it may never get ready, and keep those from being started that would, or the runner from
// ending.
func (k *kept) outdated() {
	if k.state != booting || k.why != "" {
		return
	}
	switch {
	case k.pool.removed:
		k.stale = true
		k.kill("nobody wants it any more")
	case k.defined != k.pool.defined:
		k.stale = true
		k.kill("the launcher is another one by now")
	}
}

// renew has all processes replaced, one after the other.
func (p *pool) renew(reason string) {
	p.version++
	p.reason = reason
	for _, k := range p.processes {
		k.due = reason
	}
	p.soon()
}

// soon has a process started as soon as may be, though the last one has failed: something has
// changed.
func (p *pool) soon() { p.delay, p.next, p.dirty = 0, 0, true }

// remove ends the pool: its processes end when they have no job, those that load at once. Nobody
// else waits for them to be gone.
func (p *pool) remove() {
	p.removed, p.wanted, p.dirty = true, 0, true
	p.refuseAll("the runner keeps no processes for target "+p.def.Target+" any more", wire.Short)
	for _, k := range p.processes {
		k.outdated()
	}
	for held := range p.places {
		held.leave()
	}
}

// refuseAll refuses what waits for a process.
func (p *pool) refuseAll(why string, class wire.Class) {
	for _, c := range p.waiting {
		c.turn.watcher.refused(why, class)
	}
	p.waiting = nil
}

// assign passes waiting jobs to processes that are free.
func (p *pool) assign() {
	for len(p.waiting) > 0 && !p.isTried() {
		k := p.free()
		if k == nil {
			break
		}
		c := p.waiting[0]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		k.ask(c)
	}
	if p.unready != "" {
		p.refuseAll(p.unready, wire.Program)
	}
	if !p.removed && len(p.waiting) > 0 {
		need := len(p.waiting) + p.count(func(k *kept) bool { return k.state == asked || k.state == busy })
		p.wanted = max(p.wanted, min(need, max(1, p.def.Slots)))
	}
}

// free is an idle process: one that stays, if there is one, and of these the one that had the last
// job, so that others may become superfluous.
func (p *pool) free() (free *kept) {
	for _, k := range p.processes {
		if k.state != idle || k.spent || k.closed != "" || k.unclean > 0 || k.held {
			continue
		}
		if free == nil || (k.due == "") != (free.due == "") && k.due == "" || (k.due == "") == (free.due == "") && k.since > free.since {
			free = k
		}
	}
	return free
}

func (p *pool) count(counts func(*kept) bool) (n int) {
	for _, k := range p.processes {
		if counts(k) {
			n++
		}
	}
	return n
}

// serves tells whether a process is ready for a job, or will be after the one that it has.
func (k *kept) serves() bool {
	return k.state == idle || (k.state == asked || k.state == busy) && k.why == ""
}

// able tells whether a process is ready for a job, or will be soon.
func (k *kept) able() bool { return k.serves() && !k.spent }

// stays tells whether a process serves and is not to be replaced.
func (k *kept) stays() bool { return k.serves() && k.due == "" }

// lacks tells whether the pool is to have one more process now. Beyond those that are wanted there
// may be one more, while one is to be replaced.
func (p *pool) lacks(now int64) bool {
	if p.removed || p.next > now || p.unready != "" && p.booting > 0 {
		return false
	}
	starting := p.booting
	fresh := starting + p.count((*kept).stays)
	if p.isDoubted() && starting+p.count((*kept).isForATry) > 0 {
		return false
	}
	all := starting + p.count((*kept).serves)
	return fresh < p.wanted && all <= p.wanted
}

// retire ends processes that are not needed any more: those that take no more jobs, and those that
// are to be replaced as soon as others are there.
func (p *pool) retire() {
	for _, k := range p.processes {
		if k.state == idle && k.spent {
			p.end(k)
		}
	}
	serve, stay := p.count((*kept).serves), p.count((*kept).stays)
	for _, k := range p.processes {
		if k.state == idle && k.due != "" && serve > p.wanted {
			p.end(k)
			serve--
		}
	}
	for _, k := range p.processes {
		if k.state == idle && k.due == "" && stay > p.wanted {
			p.end(k)
			stay--
		}
	}
}

// end has an idle process end.
func (p *pool) end(k *kept) {
	if k.due != "" {
		p.recycled[k.due]++
	}
	k.quit()
}

// fails notes that a process has not become of use. The next one is started after a while.
func (p *pool) fails(k *kept, how failing, why string) {
	if p.removed {
		return // nobody wants another one
	}
	if how == notReady && !p.isDoubted() {
		p.useless = 0
	}
	p.putOff(k)
	p.dirty = true
	if p.failure != why {
		p.pools.warn(p, k, 0, fmt.Sprintf("a process for target %s %s: %s", p.def.Target, how, why))
	}
	if p.failed == 0 {
		p.failed = time.Now().UnixMilli()
	}
	p.failure = why
	if p.isDoubted() {
		p.endUntried()
	}
	if p.booting > 0 || p.count((*kept).able) > 0 {
		return // another one may do
	}
	p.unready = why
}

// putOff has the next process started after a while, longer each time. Those that were there before the
// last time fail with it: they are no further try.
func (p *pool) putOff(k *kept) {
	now := proc.Uptime()
	if k != nil && k.born < p.putOffAt && p.delay > 0 {
		return
	}
	p.delay = min(max(leastDelay, 2*p.delay), longestDelay)
	p.next, p.putOffAt = now+p.delay, now
	p.pools.wakeAt(p.next)
}

// failing is how a process has not become of use.
type failing string

const (
	notReady failing = "does not get ready"
	useless  failing = "gets ready, and does no job"
)

// works notes that new processes are of use again. k is the one that shows it.
func (p *pool) works(k *kept) {
	switch ps := p.pools; {
	case p.unready != "": // the worker says that jobs can be started again
		ps.noteInfo(p, k, "processes for target "+p.def.Target+" get ready again")
	case p.failure != "": // a log that tells of the one tells of the other
		ps.warn(p, k, 0, "new processes for target "+p.def.Target+" get ready again")
	}
	p.unready, p.failure, p.failed = "", "", 0
}
