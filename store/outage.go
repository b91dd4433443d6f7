package store

import (
	"sync"
	"time"
)

// outage tells whether the table can be reached. Its methods are safe for concurrent use.
type outage struct {
	onReturn func() // is called when it can again; nil: nobody cares

	mu    sync.Mutex
	away  chan struct{} // closed while it cannot
	why   error         // nil while it can
	since time.Time     // of the last change; zero: there was none
	ended uint64        // outages that are over
}

// Away gives a channel that is closed as long as the table cannot be reached.
func (o *outage) Away() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away
}

// Reachable tells whether the mirror reaches the table, by its last try: why is nil where it does.
// since is when that changed last; zero: it never did.
func (o *outage) Reachable() (since time.Time, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since, o.why
}

// Outages counts how often the table could be reached again.
func (o *outage) Outages() (ended uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// setAway notes why the table can't be reached, nil where it can, and tells whether it can again.
func (o *outage) setAway(why error) (returned bool) {
	o.mu.Lock()
	changed := (o.why == nil) != (why == nil)
	o.why = why
	if changed {
		o.since = time.Now()
	}
	if changed && why != nil {
		close(o.away)
	} else if changed {
		o.ended++
		o.away = make(chan struct{})
	}
	o.mu.Unlock()
	returned = changed && why == nil
	if returned && o.onReturn != nil {
		o.onReturn()
	}
	return returned
}
