package host

import (
	"slices"
	"time"

	"jobd/exec/runner/wire"
)

// What others ask of the pools. None of it waits, but for settle and shutdown.

// start passes a job to a pool. What becomes of it its watcher hears.
func (ps *pools) start(target string, c *child) {
	ps.do(func() {
		p := ps.byTarget[target]
		switch {
		case p == nil || p.removed:
			c.turn.watcher.refused("the runner keeps no processes for target "+target, wire.Short)
		case p.unready != "":
			c.turn.watcher.refused(p.unready, wire.Program)
		default:
			c.turn.pool = p
			p.waiting = append(p.waiting, c)
			p.dirty = true
		}
	})
}

// withdraw takes a job back that no process was asked for. One that was asked for in vain, and would
// wait for another one, is taken back then.
func (ps *pools) withdraw(c *child) {
	ps.do(func() {
		p := c.turn.pool
		if p == nil {
			return // it was refused
		}
		c.turn.unwanted = true
		if i := slices.Index(p.waiting, c); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			p.waitAgain(c)
		}
	})
}

// waitAgain has a job wait for another process, before all others, if that is wanted.
func (p *pool) waitAgain(c *child) {
	switch {
	case c.turn.unwanted:
		c.turn.watcher.refused("it was taken back while it waited for a process", wire.Short)
	case p.removed:
		c.turn.watcher.refused("the process that was to start it is gone", wire.Short)
	default:
		p.waiting = slices.Insert(p.waiting, 0, c)
	}
}

// keeps tells whether this runner knows a mode. A newer worker may know more: a pool of another mode
// is not there for it.
func keeps(mode string) bool { return mode == "fork" || mode == "pool" }

// set says which pools there are to be.
func (ps *pools) set(wanted []wire.Pool) {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(w wire.Pool) bool { return !keeps(w.Mode) || len(w.Argv) == 0 })
	ps.do(func() {
		for target, p := range ps.byTarget {
			if !slices.ContainsFunc(wanted, func(w wire.Pool) bool { return w.Target == target }) {
				p.remove()
			}
		}
		for _, w := range wanted {
			p := ps.byTarget[w.Target]
			if p == nil {
				p = &pool{pools: ps, def: w, recycled: make(map[string]int64)}
				ps.byTarget[w.Target] = p
			}
			p.define(w)
		}
		ps.wakeAt(ps.ticked + int64(ps.times.tick))
	})
}

// recycle has processes replaced: of some targets, or, where none is named, of all. The wishes that
// this does are not done again when they are told with the pools.
func (ps *pools) recycle(targets []string, why string, wishes []wire.Pool) {
	ps.do(func() {
		for target, p := range ps.byTarget {
			if len(targets) == 0 || slices.Contains(targets, target) {
				p.renew(reasonOf(why))
			}
		}
		for _, w := range wishes {
			if p := ps.byTarget[w.Target]; p != nil {
				p.def.Wish = w.Wish
			}
		}
	})
}

// reasonOf is a word that may stand among the reasons of replacements, of which there are few.
func reasonOf(why string) string {
	if why == "" || len(why) > 20 || slices.ContainsFunc([]byte(why), func(c byte) bool { return (c < 'a' || c > 'z') && c != '_' }) {
		return "recycle"
	}
	return why
}

// joined says that a worker is there, which hears of pools or does not. One that does not wants none.
func (ps *pools) joined(understands bool) {
	if !understands {
		ps.set(nil)
	}
	ps.do(func() { ps.news.all = true })
}

// left says that the worker is gone. What no process was asked for yet is not started: the next
// worker does not hear of it, and asks anew.
func (ps *pools) left() {
	ps.do(func() {
		for _, p := range ps.byTarget {
			p.refuseAll("the worker is gone", wire.Short)
		}
	})
}

// settleTime is how long settle waits at most: longer than a process that was asked for a job may
// take until it has answered, or is killed.
const settleTime = 8 * time.Second

// settle waits until of each job that was passed to a process is known which process it is, so that
// the next worker can be told.
func (ps *pools) settle() {
	settled := make(chan struct{})
	if !ps.do(func() { ps.settling = append(ps.settling, settled) }) {
		return
	}
	late := time.NewTimer(settleTime)
	defer late.Stop()
	select {
	case <-settled:
	case <-ps.over:
	case <-late.C:
	}
}

// shutdown ends all processes, and waits for that: each has its time to end by itself.
func (ps *pools) shutdown() {
	gone := make(chan struct{})
	ps.set(nil)
	if !ps.do(func() { ps.leaving = gone }) {
		return
	}
	select {
	case <-gone:
	case <-ps.over:
	}
}
