package host

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// pool is the processes that run the jobs of a target.
type pool struct {
	pools     *pools
	def       wire.Pool
	processes []*poolProcess // until they are reaped
	waiting   []*job         // for a process, the oldest first
	wanted    int            // how many processes the target needs
	dirty     bool           // something has changed
	removed   bool           // its processes end, and then it does

	version int // counts up when somebody wants all processes replaced

	booting int    // processes that are not ready yet
	delay   int64  // between the last one that failed and the next; 0: none has, or one has begun a job since
	next    int64  // no process is started before that
	useless bool   // one has got ready, and ended before any had begun a job
	failure string // of the last one; "": it has got ready
	unready string // why none gets ready, or does a job
	failed  int64  // since when they fail, unix milliseconds; 0: they do not
	checks  bool   // its files are being looked at

	boots, jobs int64
	recycled    map[string]int64
	stranger    string // what another process last wrote to a pool process's descriptor 4, in words
	strangerAt  int64  // unix milliseconds
}

// Two processes of a pool load at a time; one, and after a while, where the last one has failed.
const (
	mostBooting  = 2
	leastDelay   = int64(time.Second)
	longestDelay = int64(30 * time.Second)
)

// define says what the pool is from now on.
func (p *pool) define(def wire.Pool) {
	was := p.def
	p.def, p.wanted, p.dirty = def, def.Slots, true
	if def.Wish != was.Wish && def.Wish != 0 {
		reason := "recycle"
		if def.Why == "reload" { // else it is said in words
			reason = def.Why
		}
		p.renew(reason)
	}
	another := !reflect.DeepEqual(was.Account, def.Account)
	if another || was.Mode != def.Mode || was.Dir != def.Dir || !slices.Equal(was.Argv, def.Argv) || !slices.Equal(was.Env, def.Env) {
		p.renew("reload")
		p.useless = false
	}
	for _, k := range p.processes {
		k.spent = k.spent || another // no job runs under an account that is not its
	}
}

func (p *pool) killBooting(why string) {
	for _, k := range p.processes {
		if k.state == booting && k.why == "" {
			k.kill(why)
		}
	}
}

// renew has all processes replaced, one after the other. Those that load are killed: they may never get
// ready, and keep those from being started that would.
func (p *pool) renew(reason string) {
	p.version++
	for _, k := range p.processes {
		k.due = reason
	}
	p.killBooting("the launcher was replaced")
	p.soon()
}

// soon has a process started as soon as may be, though the last one has failed: something has
// changed.
func (p *pool) soon() { p.delay, p.next, p.dirty = 0, 0, true }

// remove ends the pool: its processes end when they have no job, those that load at once. A target that
// comes back has a new one.
func (p *pool) remove() {
	p.removed, p.wanted, p.dirty = true, 0, true
	p.refuseAll("the runner keeps no pool for target "+p.def.Target+" any more", wire.Short)
	p.killBooting("its target was removed")
}

// refuseAll refuses what waits for a process.
func (p *pool) refuseAll(why string, class wire.Class) {
	for _, j := range p.waiting {
		p.pools.reactor.watcher.refused(j, why, class)
	}
	p.waiting = nil
}

// assign passes waiting jobs to processes that are free.
func (p *pool) assign() {
	for len(p.waiting) > 0 {
		k := p.free()
		if k == nil {
			break
		}
		j := p.waiting[0]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		k.ask(j)
	}
	if p.unready != "" {
		p.refuseAll(p.unready, wire.Program)
	}
	if !p.removed && len(p.waiting) > 0 {
		need := len(p.waiting) + p.count(func(k *poolProcess) bool { return k.state == asked || k.state == busy })
		p.wanted = max(p.wanted, min(need, max(1, p.def.Slots)))
	}
}

// free is an idle process: one that stays, if there is one, and of these the one that had the last
// job, so that others may become superfluous.
func (p *pool) free() (free *poolProcess) {
	for _, k := range p.processes {
		switch {
		case k.state != idle || k.spent:
		case free == nil, k.stays() && !free.stays(), k.stays() == free.stays() && k.since > free.since:
			free = k
		}
	}
	return free
}

func (p *pool) count(counts func(*poolProcess) bool) (n int) {
	for _, k := range p.processes {
		if counts(k) {
			n++
		}
	}
	return n
}

// lacks tells whether the pool needs one more process now. Beyond those that are wanted there may be
// one more, while the pool replaces one.
func (p *pool) lacks(now int64) bool {
	most := mostBooting
	if p.delay > 0 {
		most = 1
	}
	if p.removed || p.next > now || p.booting >= most {
		return false
	}
	return p.booting+p.count((*poolProcess).stays) < p.wanted && p.booting+p.count((*poolProcess).serves) <= p.wanted
}

// retire ends processes that are not needed any more: those that take no more jobs, and those that
// others replace, as soon as these are there.
func (p *pool) retire() {
	serve, stay := p.count((*poolProcess).serves), p.count((*poolProcess).stays)
	for _, spent := range []bool{true, false} {
		for _, k := range p.processes {
			if k.state != idle || k.spent != spent || !spent && (k.due != "" && serve <= p.wanted || k.due == "" && stay <= p.wanted) {
				continue
			}
			serve--
			if k.due == "" {
				stay--
			} else {
				p.recycled[k.due]++
			}
			k.quit()
		}
	}
}

// fails notes that a process has not become of use. The next one is started after a while, longer each
// time.
func (p *pool) fails(k *poolProcess, how, why string) {
	now := proc.Uptime()
	if p.removed {
		return // nobody wants another one
	}
	if now >= p.next { // else it was there before the last one that failed
		p.delay = min(max(leastDelay, 2*p.delay), longestDelay)
		p.next = now + p.delay
		p.pools.reactor.ringAt(p.next)
	}
	p.dirty = true
	if p.failure != why {
		p.pools.warn(p, k, 0, fmt.Sprintf("a process for target %s %s: %s", p.def.Target, how, why))
	}
	if p.failed == 0 {
		p.failed = time.Now().UnixMilli()
	}
	p.failure = why
	if p.booting == 0 && p.count(func(other *poolProcess) bool { return other != k && other.able() }) == 0 {
		p.unready = why
	}
}

// works notes that new processes get ready again. k is the one that shows it.
func (p *pool) works(k *poolProcess) {
	if p.failure != "" && !p.useless {
		p.pools.warn(p, k, 0, "new processes for target "+p.def.Target+" get ready again")
	}
	p.unready, p.failure, p.failed = "", "", 0
	if !p.useless {
		p.delay, p.next = 0, 0
	}
}

// check looks whether the launcher's files are others by now, on a goroutine: a file system may
// make it wait.
func (p *pool) check() {
	if !p.def.Watch || p.checks || p.removed {
		return
	}
	p.checks = true
	def := p.def
	go func() {
		var stamp string
		p.pools.slow.do(func() { stamp = stampOf(&def) })
		p.pools.reactor.do(func() {
			p.checks = false
			for _, k := range p.processes {
				if k.stamp != stamp && stamp != "" && k.due == "" && p.def.Watch {
					k.due = "watch"
					p.soon()
				}
			}
		})
	}()
}

// stampOf tells a launcher's files from others, and from themselves when they were changed: those
// that its words name. It is empty where one of them is not there at the moment.
func stampOf(def *wire.Pool) string {
	var b []byte
	_ = def.Account.Look(func() error {
		for i, word := range def.Argv {
			path := word
			if !filepath.IsAbs(path) {
				path = filepath.Join(def.Dir, path)
			}
			var file unix.Stat_t
			if err := unix.Stat(path, &file); err != nil {
				if i == 0 {
					return err
				}
				continue
			}
			if file.Mode&unix.S_IFMT == unix.S_IFREG {
				b = fmt.Appendf(b, "%d: %d %d %d %d\n", i, file.Dev, file.Ino, file.Size, file.Mtim.Nano())
			}
		}
		return nil
	})
	return string(b)
}

// standing tells how the pool stands.
func (p *pool) standing() wire.Standing {
	s := wire.Standing{
		Target: p.def.Target, Mode: p.def.Mode, Processes: len(p.processes), Booting: p.booting,
		Ready: p.count(func(k *poolProcess) bool { return k.state == idle }),
		Busy:  p.count(func(k *poolProcess) bool { return k.state == asked || k.state == busy }),
		Boots: p.boots, Jobs: p.jobs, Recycled: maps.Clone(p.recycled), Unready: p.unready,
		Wish: p.def.Wish, Old: p.count(func(k *poolProcess) bool { return k.version != p.version }),
		Stranger: p.stranger, StrangerAt: p.strangerAt,
	}
	switch {
	case p.unready != "":
		s.Since = p.failed
	case p.failure != "" && p.count((*poolProcess).able) > 0 && p.count((*poolProcess).stays) < p.wanted:
		s.Failing, s.Since = p.failure, p.failed
	}
	return s
}
