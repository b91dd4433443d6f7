package net

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"jobd/net/principal"
)

// ServerConfig says how a server treats its links. The zero value works, and lets everybody in.
type ServerConfig struct {
	Handlers             map[string]Handler
	Principals           *principal.Keeper // those who have a credential of their own; nil: there is only the password
	Password             string            // empty: none is needed
	AlwaysAllowLocalhost bool              // peers from a loopback address need none either
	MaxMessageSize       int               // bytes of a frame; 0: 16 MiB. At most 64 KiB of it before the password came
	Logger               *slog.Logger      // nil: none

	// TLS is offered on the same port; nil: it is not. A peer without it is let in all the same, unless
	// RequireTLS is set. Unix sockets have none.
	TLS        *tls.Config
	RequireTLS bool

	// OnLinks: told how many links there are, whenever that changes, one call at a time; must not
	// block; nil: nobody.
	OnLinks func(open int)

	// Pulse is told how the loop goes that accepts links; nil: nobody is.
	Pulse Pulse

	// Bounds, which tests make tighter.
	maxRequests int // under way at once on one link; 0: 1,024. Beyond it the link is not read
	maxLinks    int // open at once; 0: as the process's descriptors allow, see mostLinks
	// maxUnauthenticated bounds the links whose password is still to come, or their first request. 0: with
	// a password 1,024, and half of maxLinks at most; without one as maxLinks.
	maxUnauthenticated int
	passwordTimeout    time.Duration // within which the password must come; 0: passwordTimeout
}

const passwordTimeout = 30 * time.Second

// Pulse hears that a loop does a piece of work that only memory is needed for, and that it waits. The
// methods must not block.
type Pulse interface {
	Works()
	Waits()
}

// Server accepts links and serves them. Its methods are safe for concurrent use.
type Server struct {
	config ServerConfig
	link   LinkConfig // of every accepted link
	guard  *guard
	tasks  sync.WaitGroup // the links

	stopping atomic.Bool

	accepting sync.Mutex // held while a link waits for its place and is started

	mu              sync.Mutex
	closed          bool
	links           map[*Link]struct{}
	unauthenticated list.List // of *Link that gave no password, or asked nothing, so far; the oldest first
}

// NewServer makes a server that listens nowhere yet.
func NewServer(config ServerConfig) *Server {
	config.maxLinks = cmp.Or(config.maxLinks, mostLinks())
	unauthenticated := config.maxLinks // where nobody needs a password, a peer may be silent
	if config.Password != "" || config.Principals != nil {
		unauthenticated = min(1024, max(1, config.maxLinks/2))
	}
	config.maxUnauthenticated = cmp.Or(config.maxUnauthenticated, unauthenticated)
	config.passwordTimeout = cmp.Or(config.passwordTimeout, passwordTimeout)
	link := LinkConfig{
		Handlers:       config.Handlers,
		MaxMessageSize: config.MaxMessageSize,
		maxRequests:    cmp.Or(config.maxRequests, 1024),
		answerLimit:    serverAnswerLimit,
		Logger:         config.Logger,
	}.withDefaults()
	link.memory = newMemory()
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	return &Server{
		config: config,
		link:   link,
		guard:  newGuard(config.Principals, config.Password, config.AlwaysAllowLocalhost),
		links:  make(map[*Link]struct{}),
	}
}

// Shutdown lets the requests under way on all links finish and their answers be written, until ctx
// ends, then closes every link and waits for their goroutines; handlers must end when their context
// does. Its error is ctx's, where it ended first.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.tasks.Wait()
	defer s.closeAll()
	s.stopping.Store(true)
	for _, link := range s.snapshot() {
		if err := link.finishRequests(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) remove(link *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, link)
	s.reportLinks()
}

// reportLinks says how many links there are. Callers must hold mu.
func (s *Server) reportLinks() {
	if s.config.OnLinks != nil {
		s.config.OnLinks(len(s.links))
	}
}

func (s *Server) snapshot() []*Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.links))
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

// mostLinks is how many links a server may have open: a quarter of the process's descriptors, but
// no more than 512, is left for what else it does, its files, its database, its jobs.
func mostLinks() int {
	const most = 32768 // bounds their memory
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return most
	}
	all := int(limit.Cur)
	return max(1, min(all-min(all/4, 512), most))
}

// Serve accepts links from the listener and serves them until ctx ends; then it closes the
// listener, refuses requests from then on, and returns nil. The links live on until Shutdown, which
// must be called. It returns an error only where somebody else closed the listener: failures to
// accept (no descriptor left, say) are waited out. It may be called for several listeners at once.
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
			s.stopping.Store(true)
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", listener.Addr(), err)
		default:
			if backoff == 0 {
				s.config.Logger.Error("accept failed, trying again", "listener", listener.Addr().String(), "error", err)
			}
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			s.makeRoom()
			select {
			case <-time.After(backoff):
			case <-ctx.Done():
			}
		}
	}
}

// unauthenticatedGrace is how long the server leaves a link open however many come behind it: the
// password may be in its first packet, which nobody has read yet. Where there are too many
// unauthenticated links, the server accepts no more meanwhile.
const unauthenticatedGrace = 50 * time.Millisecond

// accept starts a link. It waits where there are too many unauthenticated links.
func (s *Server) accept(conn net.Conn) {
	s.accepting.Lock()
	defer s.accepting.Unlock()
	if s.config.Pulse != nil {
		s.config.Pulse.Works()
		defer s.config.Pulse.Waits()
	}
	for {
		wait, ok := s.crowded()
		switch {
		case !ok:
			_ = conn.Close()
			return
		case wait <= 0:
			s.start(conn)
			return
		}
		time.Sleep(wait)
	}
}

// start runs a link, which is unauthenticated at first.
func (s *Server) start(conn net.Conn) {
	var may *secured
	if s.config.TLS != nil && peerUID(conn) < 0 { // a unix socket needs none
		may = maySecure(conn, s.config.TLS, s.config.RequireTLS)
		conn = may
	}
	link := NewLink(conn, s.link)
	link.stopping, link.secured, link.guard = &s.stopping, may, s.guard
	if link.session = s.guard.known(PeerOf(conn)); link.session == nil {
		link.deadline = time.Now().Add(s.config.passwordTimeout)
	}
	s.run(link, func() {
		place := s.unauthenticated.PushBack(link)
		link.shown = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unauthenticated.Remove(place)
		}
	})
}

// run serves a link until it ends; placed is called with mu held before.
func (s *Server) run(link *Link, placed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = link.Close()
		return
	}
	s.links[link] = struct{}{}
	s.reportLinks()
	placed()
	leave := link.shown
	s.tasks.Go(func() {
		link.log.Debug("link accepted")
		err := link.Run(context.Background())
		link.log.Debug("link ended", "reason", err)
		if leave != nil {
			leave()
		}
		s.remove(link)
	})
}

// crowded makes room for a link: where there are too many, it closes the oldest unauthenticated one,
// or says how long to wait until that one may be closed. It is not ok where there are too many links
// and none of them may be closed.
func (s *Server) crowded() (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unauthenticated.Len() < s.config.maxUnauthenticated && len(s.links) < s.config.maxLinks {
		return 0, true
	}
	oldest := s.unauthenticated.Front()
	if oldest == nil {
		return 0, false
	}
	if wait := unauthenticatedGrace - time.Since(oldest.Value.(*Link).born); wait > 0 {
		return wait, true
	}
	s.drop(oldest)
	return 0, true
}

// makeRoom closes the oldest unauthenticated link, if there is one, for want of descriptors.
func (s *Server) makeRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if oldest := s.unauthenticated.Front(); oldest != nil {
		s.drop(oldest)
	}
}

// drop closes an unauthenticated link. Callers must hold mu.
func (s *Server) drop(place *list.Element) {
	s.unauthenticated.Remove(place)
	place.Value.(*Link).end(errors.New("too many unauthenticated links"))
}
