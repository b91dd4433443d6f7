package host

// mostBooting is how many processes may boot at once, of all pools: each keeps a processor busy.
const mostBooting = 2

// place is one of the mostBooting places for processes that load. Who has it leaves it when its
// process is ready, killed, or wanted no more: a process may take long to be gone, even to be
// started, as from a file system that does not answer, and other pools need the place.
type place struct {
	pool *pool // nil: it was left
}

// takePlace takes a place for a process that is about to be started.
func (p *pool) takePlace() *place {
	held := &place{p}
	if p.places == nil {
		p.places = make(map[*place]bool)
	}
	p.places[held] = true
	p.pools.places++
	return held
}

// leave leaves it, the first time that it is called.
func (held *place) leave() (left bool) {
	p := held.pool
	if p == nil {
		return false
	}
	held.pool = nil
	delete(p.places, held)
	p.pools.places--
	p.pools.news.changed = true // so that another process is started
	return true
}
