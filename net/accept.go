package net

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Serve accepts links from the listener and serves them until ctx ends; then it closes the
// listener, refuses requests from then on, and returns nil. The links live on until Shutdown, which
// must be called. It returns an error only where somebody else closed the listener: failures to
// accept (no descriptor left, say) are waited out.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	defer listener.Close()
	var backoff time.Duration
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			backoff = 0
			s.accept(conn)
		case ctx.Err() != nil:
			s.gate.shut()
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", listener.Addr(), err)
		default:
			if backoff == 0 {
				s.config.Logger.Error("accept failed, trying again", "listener", listener.Addr().String(), "error", err)
			}
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			if s.makeRoom() {
				backoff = 5 * time.Millisecond
			}
			wait(ctx, backoff)
		}
	}
}

// wait waits for a while, or until ctx ends.
func wait(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}

// newcomerGrace is how long a link is left alone however many come behind it: what it has to say
// may be in its first packet, which nobody has read yet. Where there are too many newcomers, no
// more are accepted meanwhile.
const newcomerGrace = 50 * time.Millisecond

// accept starts a link.
func (s *Server) accept(conn net.Conn) {
	address := addressOf(conn.RemoteAddr())
	comers, entry := &s.silent, (*entry)(nil)
	if !s.guard.lets(address) {
		comers, entry = &s.unproven, s.entry(conn)
	}
	link := newLink(conn, s.link, &s.gate, entry)
	place := newcomer{link: link}
	for {
		var wait time.Duration
		var ok bool
		s.works(func() { wait, ok = s.crowded(comers, &place) })
		if !ok {
			link.end(errors.New("too many links are open"))
			return
		}
		if wait <= 0 {
			break
		}
		<-time.After(wait)
	}
	left := func() { s.leave(comers, &place) }
	link.noticed = left
	if entry != nil {
		link.noticed, entry.admitted = nil, left
	}
	s.works(func() { s.start(link, left) })
}

// works tells the pulse of a piece of work.
func (s *Server) works(work func()) {
	if s.config.Pulse != nil {
		s.config.Pulse.Works()
		defer s.config.Pulse.Waits()
	}
	work()
}

func (s *Server) entry(conn net.Conn) *entry {
	return &entry{guard: s.guard, conn: conn, deadline: time.Now().Add(s.config.passwordTimeout)}
}

// start runs a link; left is called when it has ended.
func (s *Server) start(link *Link, left func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = link.Close()
		return
	}
	s.links[link] = struct{}{}
	s.reportLinks()
	s.tasks.Go(func() {
		link.log.Debug("link accepted")
		err := link.Run(context.Background())
		link.log.Debug("link ended", "reason", err)
		s.remove(link)
		left()
	})
}

// crowded gives a link its place among the newcomers, closing others where there are too many; or
// it tells how long it takes until those may be closed. It is not ok where there are too many links
// and none of them may be closed.
func (s *Server) crowded(comers *newcomers, place *newcomer) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	excess := comers.excess()
	if excess == nil && len(s.links) >= s.config.maxLinks {
		if excess = s.oldest(); excess == nil {
			return 0, false
		}
	}
	if excess != nil {
		if wait := newcomerGrace - time.Since(excess.came); wait > 0 {
			return wait, true
		}
		s.dropNewcomer(excess)
	}
	comers.add(place)
	return 0, true
}

// oldest is the newcomer to close where there are too many links; nil where there is none. The
// caller must hold mu.
func (s *Server) oldest() *newcomer {
	if one := s.unproven.oldest(); one != nil {
		return one
	}
	return s.silent.oldest()
}

// makeRoom closes the oldest newcomer, if there is one, for want of descriptors.
func (s *Server) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.oldest()
	if oldest != nil {
		s.dropNewcomer(oldest)
	}
	return oldest != nil
}

// dropNewcomer closes a link that has shown nothing yet. Callers must hold mu.
func (s *Server) dropNewcomer(one *newcomer) {
	s.unproven.remove(one)
	s.silent.remove(one)
	one.link.end(errors.New("too many links that have proven nothing"))
}

func (s *Server) leave(comers *newcomers, place *newcomer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	comers.remove(place)
}
