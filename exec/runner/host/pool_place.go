package host

import "jobd/exec/runner/proc"

// Processes that load keep processors busy, so that few may load at once, of all pools together. But
// some wait while they load, for a database or a lock, and some never get ready. Others are not to
// wait for them, so there are places of two kinds:
//
//	quick   mostBooting, for pools whose last process was ready within times.quick, or of which
//	        nothing is known yet. What takes longer has none of these places any more.
//	slow    mostBooting, for the other pools; no more than one of a pool whose last process failed.
//
// What was quick before, or is not known yet, may get slow in its place. So that many of these can't
// come together, there is a bound for all, which leaves room for those that are known.
const (
	mostBooting = 2
	mostUnknown = 6
	mostLoading = 8
)

// place is a place of a process that loads. Who has it leaves it when its process is ready, killed,
// or wanted no more: a process may take long to be gone, even to be started, as from a file system
// that does not answer, and other pools need the place.
type place struct {
	pool  *pool // nil: it was left
	since int64 // the uptime when it was taken
}

// takePlace takes a place for a process that is about to be started.
func (p *pool) takePlace() *place {
	held := &place{p, proc.Uptime()}
	if p.places == nil {
		p.places = make(map[*place]bool)
	}
	p.places[held] = true
	p.pools.loading[held] = true
	return held
}

// leave leaves it, the first time that it is called.
func (held *place) leave() (left bool) {
	p := held.pool
	if p == nil {
		return false
	}
	p.slow = held.lasts(proc.Uptime())
	held.pool = nil
	delete(p.places, held)
	delete(p.pools.loading, held)
	p.pools.news.changed = true // so that another process is started
	return true
}

// lasts tells whether a process has taken too long for one that loads quickly.
func (held *place) lasts(now int64) bool {
	return now-held.since > int64(held.pool.pools.times.quick)
}

// crowd is how many places are taken.
type crowd struct {
	quick, slow, failing, all int
	first                     int64 // since when the first quick one is
}

// crowd counts them, and notes which pools have got slow.
func (ps *pools) crowd(now int64) (c crowd) {
	for held := range ps.loading {
		p := held.pool
		p.slow = p.slow || held.lasts(now)
		c.all++
		switch {
		case !p.slow:
			if c.quick++; c.quick == 1 || held.since < c.first {
				c.first = held.since
			}
		case p.delay > 0:
			c.failing++
			fallthrough
		default:
			c.slow++
		}
	}
	return c
}

// takes tells whether there is a place for one more process of a pool.
func (c crowd) takes(p *pool) bool {
	switch {
	case p.slow:
		return c.slow < mostBooting && c.all < mostLoading && (p.delay == 0 || c.failing == 0)
	case p.boots == 0:
		return c.quick < mostBooting && c.all < mostUnknown
	}
	return c.quick < mostBooting && c.all < mostLoading
}

// replenish starts processes where there are too few, the pool first that has waited for longest.
func (ps *pools) replenish() {
	ps.crowded = false
	for now := proc.Uptime(); ; {
		c := ps.crowd(now)
		var first *pool
		for _, p := range ps.byTarget {
			switch {
			case !p.lacks(now):
			case !c.takes(p):
				ps.crowded = true
			case first == nil || p.booted < first.booted:
				first = p
			}
		}
		if first == nil {
			if ps.crowded && c.quick > 0 { // what loads still may turn out to be slow
				ps.wakeAt(c.first + int64(ps.times.quick) + 1)
			}
			return
		}
		ps.boot(first, now)
	}
}
