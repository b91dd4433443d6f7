package rule

import (
	"context"
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
	for { // another server may have been reached meanwhile, whose table is examined then
		if known := k.Load(); known != nil {
			return known, nil
		}
		if err := k.Examine(ctx); err != nil {
			return nil, err
		}
	}
}
