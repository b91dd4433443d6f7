package net

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
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
		answerLimit:    serverAnswerLimit,
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

// errForeign ends a link whose peer speaks some other protocol.
var errForeign = errors.New("peer speaks another protocol")

// A browser can be led to send a request of HTTP to any port, and puts what it is told into the
// body. So nothing is run of a link that does not begin as this protocol does: with a byte that can
// begin a JSON value, and not with a request line of HTTP or its kin, whose method may begin with
// such a byte too. Broken JSON is nonsense as anywhere else.

// recognise looks at what a link begins with, until that is known. It is given what came so far
// of the first frame that is not blank, and whether that is all of it.
func (r *receiver) recognise(text []byte, whole bool) error {
	if r.recognised {
		return nil
	}
	said := bytes.TrimLeft(text, " \t\r\n")
	if len(said) == 0 {
		return nil // a blank frame says nothing
	}
	if bytes.IndexByte([]byte(`[{"-0123456789tfn`), said[0]) < 0 {
		return errForeign
	}
	fresh := text[min(r.looked, len(text)):]
	r.looked = len(text)
	if !whole && bytes.IndexByte(fresh, '\n') < 0 {
		return nil
	}
	line, _, ends := bytes.Cut(said, []byte("\n"))
	if ends && isRequestLine(line) {
		return errForeign
	}
	r.recognised = whole || ends
	return nil
}

// isRequestLine tells whether a line ends as `GET / HTTP/1.1` does. No line of JSON does.
func isRequestLine(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	protocol, version, found := bytes.Cut(line[bytes.LastIndexByte(line, ' ')+1:], []byte("/"))
	if !found || len(protocol) == 0 || len(version) == 0 || len(protocol) == len(line) {
		return false
	}
	for _, b := range protocol {
		if b|0x20 < 'a' || b|0x20 > 'z' {
			return false
		}
	}
	return len(bytes.Trim(version, "0123456789.")) == 0
}
