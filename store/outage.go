package store

import "sync"

// outage tells whether the table can be reached. Its methods are safe for concurrent use.
type outage struct {
	onReturn func() // is called when it can again; nil: nobody cares

	mu     sync.Mutex
	away   chan struct{} // closed while it cannot
	isAway bool
}

// Away gives a channel that is closed as long as the table cannot be reached.
func (o *outage) Away() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away
}

// setAway notes whether the table can be reached, and tells whether it can again.
func (o *outage) setAway(away bool) (returned bool) {
	o.mu.Lock()
	changed := o.isAway != away
	o.isAway = away
	if changed && away {
		close(o.away)
	} else if changed {
		o.away = make(chan struct{})
	}
	o.mu.Unlock()
	returned = changed && !away
	if returned && o.onReturn != nil {
		o.onReturn()
	}
	return returned
}
