package rule

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"jobd/store"
)

// Servers knows on which server claims may be made. Its methods are safe for concurrent use.
type Servers struct {
	OnServer  func() // is called when another server is reached; it must not block
	confirmed atomic.Pointer[string]
}

// Confirm lets claims be made on a server, and on no other.
func (s *Servers) Confirm(id string) { s.confirmed.Store(&id) }

// Reach tells the owner of OnServer where a new connection leads to another server than the
// confirmed one.
func (s *Servers) Reach(server string) {
	if s.unconfirmed(server) != nil {
		s.OnServer()
	}
}

// AllowClaim fails where claims are not to be made on a server. OnServer is called each time, so
// that a claim that comes again finds the server confirmed in the end.
func (s *Servers) AllowClaim(ctx context.Context, server string) error {
	err := s.unconfirmed(server)
	if err == nil || store.IsComparing(ctx) {
		return nil
	}
	s.OnServer()
	return err
}

// unconfirmed is the error for a server that is not the confirmed one.
func (s *Servers) unconfirmed(server string) error {
	confirmed := s.confirmed.Load()
	switch {
	case confirmed == nil:
		return &store.AnotherServer{Reached: server}
	case *confirmed != server:
		return &store.AnotherServer{Reached: server, Confirmed: *confirmed}
	}
	return nil
}

// Known is what the examination of a table has found; nil until then.
type Known[L any] struct {
	atomic.Pointer[L]
	// Examine examines the table and keeps what it found.
	Examine func(context.Context) error
}

// Get gives it; where it is not known, the table is examined.
func (k *Known[L]) Get(ctx context.Context) (*L, error) {
	if known := k.Load(); known != nil {
		return known, nil
	}
	if err := k.Examine(ctx); err != nil {
		return nil, err
	}
	return k.Load(), nil
}

// Odd remembers rows whose ids are no ids to us, so that each is told once. Its zero value is
// ready, and its methods are safe for concurrent use.
type Odd struct {
	mu    sync.Mutex
	ids   []string
	told  map[string]bool
	crowd bool // there are more than are remembered
}

// oddLimit is how many ids are remembered one by one.
const oddLimit = 256

// Report tells a row once, and remembers it.
func (o *Odd) Report(id, target string, tell func(row, target, reason string)) {
	if o.add(id) && tell != nil {
		tell(id, target, "its id is "+id+": only rows whose id is a whole number of 64 bits, and not 0, are run")
	}
}

func (o *Odd) add(id string) (added bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.told[id]:
		return false
	case len(o.ids) >= oddLimit:
		o.crowd = true
		return false
	case o.told == nil:
		o.told = map[string]bool{}
	}
	o.told[id] = true
	o.ids = append(o.ids, id)
	return true
}

// Known gives the ids that were reported, as SQL takes them. Where crowd is true there are more
// than that, or some that are no numbers, and all have to be kept out by a condition on the id.
func (o *Odd) Known() (ids []string, crowd bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	crowd = o.crowd
	for _, id := range o.ids {
		_, signed := strconv.ParseInt(id, 10, 64)
		_, unsigned := strconv.ParseUint(id, 10, 64)
		if signed != nil && unsigned != nil {
			crowd = true
			continue
		}
		ids = append(ids, id)
	}
	return ids, crowd
}
