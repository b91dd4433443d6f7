package host

import "jobd/exec/runner/proc"

// Processes that load keep processors busy, so that few may load at once, of all pools together. But
// some wait while they load, for a database or a lock, and some never get ready. Others are not to
// wait for them, so there are places of two kinds:
//
//	quick   mostBooting, for pools whose last process was ready within times.quick, or of which
//	        nothing is known yet. What takes longer has none of these places any more.
//	slow    mostBooting, for the other pools; no more than one of a pool whose last process failed.
//	        What takes ten times as long has none of these either.
//
// What has no place any more loads on. So that it can't come to be many, there is a bound for all,
// which leaves room for pools that had a process before, and holds back none that was quick and has
// jobs that wait, and no process.
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
func (held *place) lasts(now int64) bool { return now > held.changes(1) }

// changes is when a place is taken for so many times as long as what is quick takes.
func (held *place) changes(times int64) int64 {
	return held.since + times*int64(held.pool.pools.times.quick)
}

// hanging is how many times as long what hardly loads takes, but waits.
const hanging = 10

// crowd is how many places are taken.
type crowd struct {
	quick, slow, failing, all int
	next                      int64 // when one that is taken changes its kind; 0: none does
}

// crowd counts them, and notes which pools have got slow.
func (ps *pools) crowd(now int64) (c crowd) {
	for held := range ps.loading {
		p, changes := held.pool, held.changes(hanging)
		p.slow = p.slow || held.lasts(now)
		c.all++
		switch {
		case now > changes:
			continue
		case p.slow:
			c.slow++
			if p.failure != "" {
				c.failing++
			}
		default:
			c.quick++
			changes = held.changes(1)
		}
		if c.next == 0 || changes < c.next {
			c.next = changes
		}
	}
	return c
}

// takes tells whether there is a place for one more process of a pool.
func (c crowd) takes(p *pool) bool {
	switch {
	case p.slow:
		return c.slow < mostBooting && c.all < p.mostBeside() && (p.failure == "" || c.failing == 0)
	case p.boots > 0 && p.isInNeed(): // and it was quick: nobody waits for it for long
		return c.quick < mostBooting
	}
	return c.quick < mostBooting && c.all < p.mostBeside()
}

// mostBeside is how many may load where one more of a pool's is to be one of them.
func (p *pool) mostBeside() int {
	if p.boots == 0 {
		return mostUnknown
	}
	return mostLoading
}

// isInNeed tells whether jobs wait, and no process is there that will have one of them.
func (p *pool) isInNeed() bool { return len(p.waiting) > 0 && p.count((*kept).able) == 0 }

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
			if ps.crowded && c.next > 0 { // what loads still may turn out to be slow
				ps.wakeAt(c.next + 1)
			}
			return
		}
		ps.boot(first, now)
	}
}
