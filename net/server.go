package net

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// ServerConfig says how a server treats its links. The zero value works, and lets everybody in.
type ServerConfig struct {
	Handlers             map[string]Handler
	Password             string // empty: none is needed
	AlwaysAllowLocalhost bool   // peers from a loopback address need none either
	MaxMessageSize       int    // bytes of a frame; 0: 16 MiB. At most 64 KiB of it before the password came
	MaxRequests          int    // under way at once on one link; 0: 1,024. Beyond it the link is not read
	MaxUnproven          int    // links whose password is still to come; 0: 1,024. Beyond it the oldest of them is closed, see unprovenGrace

	PasswordTimeout time.Duration // within which the password must come; 0: 30 s
	FrameTimeout    time.Duration // within which a frame must be complete once begun; 0: 30 s
	WriteTimeout    time.Duration // within which a peer must take 64 KiB; 0: 30 s
	Logger          *slog.Logger  // nil: none

	OnLinks func(open int) // told how many links there are, whenever that changes, one call at a time; must not block; nil: nobody
}

// unprovenGrace is how long a link is left alone however many come behind it: the password may be in its first packet,
// which nobody has read yet. Where there are too many links without one, no more are accepted meanwhile.
const unprovenGrace = 50 * time.Millisecond

// Server accepts links and serves them. Its methods are safe for concurrent use.
type Server struct {
	config ServerConfig
	link   LinkConfig // of every accepted link
	guard  *guard
	gate   gate
	tasks  sync.WaitGroup // the links

	mu       sync.Mutex
	closed   bool
	links    map[*Link]struct{}
	unproven *list.List // of *Link, the oldest first
}

// NewServer makes a server that listens nowhere yet.
func NewServer(config ServerConfig) *Server {
	if config.MaxRequests == 0 {
		config.MaxRequests = 1024
	}
	if config.MaxUnproven == 0 {
		config.MaxUnproven = 1024
	}
	if config.PasswordTimeout == 0 {
		config.PasswordTimeout = 30 * time.Second
	}
	link := LinkConfig{
		Handlers:       config.Handlers,
		MaxMessageSize: config.MaxMessageSize,
		MaxRequests:    config.MaxRequests,
		FrameTimeout:   config.FrameTimeout,
		WriteTimeout:   config.WriteTimeout,
		Logger:         config.Logger,
	}.withDefaults()
	config.Logger = link.Logger
	return &Server{
		config:   config,
		link:     link,
		guard:    newGuard(config.Password, config.AlwaysAllowLocalhost),
		links:    make(map[*Link]struct{}),
		unproven: list.New(),
	}
}

// Serve accepts links from the listener and serves them until ctx ends; then it closes the listener, refuses requests
// from then on, and returns nil. The links live on until Shutdown, which must be called. It returns
// an error only where somebody else closed the listener: failures to accept (no descriptor left, say) are waited out.
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
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			s.config.Logger.Error("accept failed", "listener", listener.Addr().String(), "error", err, "retry_in", backoff)
			wait(ctx, backoff)
		}
	}
}

// Shutdown lets the requests under way on all links finish and their answers be written, until ctx ends, then closes every link
// and waits for their goroutines; handlers must end when their context does. Its error is ctx's, where it ended first.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.tasks.Wait()
	defer s.closeAll()
	select {
	case <-s.gate.shut():
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, link := range s.snapshot() {
		if err := link.out.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// accept starts a link.
func (s *Server) accept(conn net.Conn) {
	address := addressOf(conn.RemoteAddr())
	if s.guard.lets(address) {
		s.start(newLink(conn, s.link, &s.gate, nil), func() {})
		return
	}
	if wait := s.crowded(); wait > 0 {
		<-time.After(wait)
	}
	now := time.Now()
	entry := &entry{guard: s.guard, address: address, accepted: now, deadline: now.Add(s.config.PasswordTimeout)}
	link := newLink(conn, s.link, &s.gate, entry)
	place := s.queueUnproven(link)
	entry.admitted = func() { s.leaveUnproven(place) }
	s.start(link, entry.admitted)
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
	s.tellLinks()
	s.tasks.Go(func() {
		link.log.Debug("link accepted")
		err := link.Run(context.Background())
		link.log.Debug("link ended", "reason", err)
		s.remove(link)
		left()
	})
}

// crowded tells how long it takes until the oldest link without a password may be closed for another one.
func (s *Server) crowded() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unproven.Len() < s.config.MaxUnproven {
		return 0
	}
	oldest := s.unproven.Front().Value.(*Link)
	return unprovenGrace - time.Since(oldest.entry.accepted)
}

// queueUnproven notes a link whose password is still to come, and closes the oldest such link where there are too many.
func (s *Server) queueUnproven(link *Link) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unproven.Len() >= s.config.MaxUnproven {
		oldest := s.unproven.Remove(s.unproven.Front()).(*Link)
		oldest.end(errors.New("too many links without a password"))
	}
	return s.unproven.PushBack(link)
}

func (s *Server) leaveUnproven(place *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unproven.Remove(place) // does nothing where it was removed before
}

func (s *Server) remove(link *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, link)
	s.tellLinks()
}

// tellLinks tells how many links there are. The caller holds mu.
func (s *Server) tellLinks() {
	if s.config.OnLinks != nil {
		s.config.OnLinks(len(s.links))
	}
}

func (s *Server) snapshot() []*Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	links := make([]*Link, 0, len(s.links))
	for link := range s.links {
		links = append(links, link)
	}
	return links
}

// closeAll ends all links, and those that may still be accepted.
func (s *Server) closeAll() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, link := range s.snapshot() {
		_ = link.Close()
	}
}

// wait waits for a while, or until ctx ends.
func wait(ctx context.Context, duration time.Duration) {
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
}
