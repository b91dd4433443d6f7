package net

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"syscall"
	"time"
)

// ServerConfig says how a server treats its links. The zero value works, and lets everybody in.
type ServerConfig struct {
	Handlers             map[string]Handler
	Password             string       // empty: none is needed
	AlwaysAllowLocalhost bool         // peers from a loopback address need none either
	MaxMessageSize       int          // bytes of a frame; 0: 16 MiB. At most 64 KiB of it before the password came
	Logger               *slog.Logger // nil: none

	OnLinks func(open int) // told how many links there are, whenever that changes, one call at a time; must not block; nil: nobody

	// Pulse is told how the loop goes that accepts links; nil: nobody is.
	Pulse Pulse

	// Bounds, which tests make tighter.
	maxRequests     int           // under way at once on one link; 0: 1,024. Beyond it the link is not read
	maxLinks        int           // open at once; 0: as the process's descriptors allow, see mostLinks
	maxUnproven     int           // links whose password is still to come; 0: 1,024, and half of maxLinks at most
	passwordTimeout time.Duration // within which the password must come; 0: 30 s
}

// Pulse hears that a link that was accepted is begun with, for which only memory is needed, and that
// the loop waits. The methods must not block.
type Pulse interface {
	Works()
	Waits()
}

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
	unproven newcomers // their password is to come
	silent   newcomers // they need none, and said nothing yet
}

// NewServer makes a server that listens nowhere yet.
func NewServer(config ServerConfig) *Server {
	if config.maxRequests == 0 {
		config.maxRequests = 1024
	}
	if config.maxLinks == 0 {
		config.maxLinks = mostLinks()
	}
	if config.maxUnproven == 0 {
		config.maxUnproven = min(1024, max(1, config.maxLinks/2))
	}
	if config.passwordTimeout == 0 {
		config.passwordTimeout = 30 * time.Second
	}
	link := LinkConfig{
		Handlers:       config.Handlers,
		MaxMessageSize: config.MaxMessageSize,
		maxRequests:    config.maxRequests,
		Logger:         config.Logger,
	}.withDefaults()
	config.Logger = link.Logger
	link.bound, link.memory = &chatter{log: link.Logger}, newMemory(link.MaxMessageSize)
	return &Server{
		config:   config,
		link:     link,
		guard:    newGuard(config.Password, config.AlwaysAllowLocalhost),
		links:    make(map[*Link]struct{}),
		unproven: newcomers{most: config.maxUnproven},
		silent:   newcomers{most: config.maxLinks},
	}
}

// Shutdown lets the requests under way on all links finish and their answers be written, until ctx
// ends, then closes every link and waits for their goroutines; handlers must end when their context
// does. Its error is ctx's, where it ended first.
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
