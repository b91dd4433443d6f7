package request

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// A service: whether a connection can be had, those that are kept, and each of them.

// protocol is how a kind of service is spoken to.
type protocol interface {
	// where names the service as people know it, without anything secret.
	where() string
	// dial makes a connection over which nothing was asked for yet, and names what it leads to.
	dial(ctx context.Context) (*connection, error)
	// ask sends a job's request and reads the answer to its end. What has read or written the
	// connection fails once that is interrupted.
	ask(c *connection, spec *jobexec.Spec) answer
}

// answer is what has become of a request.
type answer struct {
	done     journal.Done
	err      error // why its outcome is unknown; done has what came
	reusable bool  // the connection may take another request
}

const (
	// idleFor is how long a connection is kept that has no request. Servers close theirs after some
	// seconds: a request that is sent at that moment is lost, and its outcome unknown.
	idleFor = time.Second
	// dialTimeout is how long a connection may take where the service does not say.
	dialTimeout = 10 * time.Second
	firstRedial = 250 * time.Millisecond
	lastRedial  = 30 * time.Second
)

// report tells how the service of a target stands.
type report func(target string)

// service is what a target's requests are sent to, with its connections. When there is no connection to
// be had it is unable: starts are refused until one is there again, which it finds out by itself.
type service struct {
	target string
	of     jobexec.Service
	speaks protocol
	report report
	ctx    context.Context // ends when it is the target's no more
	stop   context.CancelFunc

	mu        sync.Mutex
	idle      []*connection // the one that was used last is the last
	dialling  int
	busy      int   // connections that a job has
	dialled   int64 // connections that were made
	jobs      int64 // jobs that had a connection
	unable    string
	since     time.Time // when it became unable, the last time
	redialing bool
	wait      time.Duration // before the newest look at it; 0: there was a connection since
}

func newService(target string, of jobexec.Service, speaks protocol, tell report) *service {
	s := &service{target: target, of: of, speaks: speaks, report: tell}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// close has it keep no connection, and look for none any more.
func (s *service) close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.idle {
		c.drop()
	}
	s.idle = nil
}

// take gives a job a connection: one that is idle, or a new one.
func (s *service) take(ctx context.Context) (*connection, error) {
	s.mu.Lock()
	if why := s.unable; why != "" {
		s.mu.Unlock()
		s.report(s.target)
		return nil, &jobexec.NotStartedError{Why: why}
	}
	var c *connection
	for len(s.idle) > 0 && c == nil {
		last := len(s.idle) - 1
		if c = s.idle[last]; !c.usable() {
			c.drop()
			c = nil
		}
		s.idle = s.idle[:last]
	}
	s.mu.Unlock()
	if c == nil {
		var err error
		if c, err = s.connect(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	s.jobs++
	return c, nil
}

// renew is called just before a request is sent. A connection that its peer has closed meanwhile, as
// servers do with idle ones, is replaced: nothing was sent over it. One that was closed as soon as it was
// there shows that nobody serves behind it.
func (s *service) renew(ctx context.Context, c *connection) (*connection, error) {
	if c.usable() {
		return c, nil
	}
	sudden := !c.used && c.fresh()
	s.put(c, false)
	if sudden {
		return nil, s.failed(errSudden)
	}
	renewed, err := s.connect(ctx)
	if err == nil {
		s.mu.Lock()
		s.busy++
		s.mu.Unlock()
	}
	return renewed, err
}

var errSudden = errors.New("the service closes connections, or answers, before anything was sent")

// connect makes a connection. Where it can't, the error is a *jobexec.NotStartedError, or that of ctx.
func (s *service) connect(ctx context.Context) (*connection, error) {
	c, err := s.dial(ctx)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case short(err):
		return nil, &jobexec.NotStartedError{Why: s.speaks.where() + ": " + err.Error(), Short: true}
	}
	return nil, s.failed(err)
}

func (s *service) dial(ctx context.Context) (*connection, error) {
	limit := s.of.Dial
	if limit <= 0 {
		limit = dialTimeout
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	s.count(&s.dialling, 1)
	defer s.count(&s.dialling, -1)
	c, err := s.speaks.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.since = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialled++
	return c, nil
}

func (s *service) count(n *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += by
}

// short tells whether it was something of this host's that was missing, which comes back by itself.
func short(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAGAIN,
	}, func(missing error) bool { return errors.Is(err, missing) })
}

// put takes a connection back from a job.
func (s *service) put(c *connection, reusable bool) {
	s.count(&s.busy, -1)
	s.keep(c, reusable)
}

// keep keeps a connection for a while.
func (s *service) keep(c *connection, reusable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reusable || s.of.Mode == jobexec.ModeFastCGI || s.ctx.Err() != nil { // FastCGI: the peer would only wait
		c.drop()
		return
	}
	c.since = time.Now()
	c.expiry = time.AfterFunc(idleFor, func() { s.expire(c) })
	s.idle = append(s.idle, c)
}

// expire closes a connection that was idle for long enough, unless a job has it by now.
func (s *service) expire(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.idle, c); i >= 0 && !c.fresh() {
		s.idle = slices.Delete(s.idle, i, i+1)
		c.drop()
	}
}

// failed notes that there is no connection to be had, and why, has that looked at, and gives the error of
// the job that has found out.
func (s *service) failed(err error) error {
	why := s.speaks.where() + ": " + err.Error()
	s.mu.Lock()
	if s.unable == "" {
		s.since = time.Now()
	}
	s.unable = why
	looks := !s.redialing && s.ctx.Err() == nil
	if looks {
		s.redialing = true
		s.wait = min(max(2*s.wait, firstRedial), lastRedial)
		go s.redial(s.wait)
	}
	s.mu.Unlock()
	s.report(s.target)
	return &jobexec.NotStartedError{Why: why}
}

// redial looks whether there is a connection to be had, after a while, and does so until there is one.
func (s *service) redial(after time.Duration) {
	timer := time.NewTimer(jittered(after))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		return
	}
	c, err := s.dial(s.ctx)
	if err == nil {
		if err = c.look(); err != nil {
			c.drop()
		}
	}
	s.mu.Lock()
	s.redialing = false
	if err == nil {
		s.unable, s.wait = "", 0
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		s.keep(c, true)
		s.report(s.target)
	case s.ctx.Err() == nil:
		_ = s.failed(err)
	}
}

// jittered spreads the looks of many workers.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func (s *service) standing() jobexec.PoolStanding {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := jobexec.PoolStanding{
		Target: s.target, Mode: s.of.Mode, Processes: len(s.idle) + s.busy + s.dialling,
		Booting: s.dialling, Ready: len(s.idle), Busy: s.busy, Boots: s.dialled, Jobs: s.jobs, Unready: s.unable,
	}
	if s.unable != "" {
		st.Since = s.since.UnixMilli()
	}
	return st
}

// connection is one to a service. One goroutine at a time has it.
type connection struct {
	net.Conn
	address string // what it leads to, as events tell it
	reader  *bufio.Reader
	head    io.LimitedReader // passes on a bounded number of bytes, until the head of an answer has come
	since   time.Time        // when it was made, or became idle
	used    bool             // it had a request
	expiry  *time.Timer      // closes it when it is idle for too long; nil: it never was idle
}

// connected makes a connection of what was dialled.
func connected(c net.Conn, address string) *connection {
	made := &connection{Conn: c, address: address}
	made.head = io.LimitedReader{R: c, N: math.MaxInt64}
	made.reader = bufio.NewReader(&made.head)
	return made
}

// fresh tells whether it was made, or became idle, so short a time ago that its peer keeps it open.
func (c *connection) fresh() bool { return time.Since(c.since) < idleFor }

// usable tells whether a request can be sent over it: its peer has neither sent anything unasked nor
// closed it.
func (c *connection) usable() bool {
	if !c.fresh() || c.reader.Buffered() > 0 {
		return false
	}
	raw, secure := c.raw()
	n, err := peek(raw)
	silent := errors.Is(err, syscall.EAGAIN)
	switch {
	case silent && secure:
		return c.quiet(0) // TLS may have read its own end behind the last answer
	case silent:
		return true
	case err != nil || n == 0:
		return false
	}
	return secure && c.quiet(time.Millisecond) // it may be what TLS says of itself
}

// quiet tells whether nothing is heard from its peer for so long, be it that it has closed it. With 0,
// only what was read already counts.
func (c *connection) quiet(within time.Duration) bool {
	until := time.Unix(1, 0)
	if within > 0 {
		until = time.Now().Add(within)
	}
	_ = c.SetReadDeadline(until) // it fails only where the connection is gone
	_, err := c.reader.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// raw is the connection below TLS.
func (c *connection) raw() (raw net.Conn, secure bool) {
	if t, is := c.Conn.(*tls.Conn); is {
		return t.NetConn(), true
	}
	return c.Conn, false
}

// peek looks for a byte without waiting, and leaves it there.
func peek(c net.Conn) (n int, err error) {
	socket, is := c.(syscall.Conn)
	if !is {
		return 0, syscall.EAGAIN
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var one [1]byte
	controlErr := raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	if controlErr != nil {
		return 0, controlErr
	}
	return n, err
}

// suddenness is how long one waits for a peer that takes connections and closes them, as what
// distributes requests does when nobody is behind it, or that speaks first, as another protocol's does.
const suddenness = 50 * time.Millisecond

// look waits for a moment whether the peer leaves a new connection as it is.
func (c *connection) look() error {
	if _, secure := c.raw(); secure {
		return nil // TLS has shown that somebody is there
	}
	if !c.quiet(suddenness) {
		return errSudden
	}
	return nil
}

// interrupt has reading and writing fail from now on.
func (c *connection) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// drop closes it.
func (c *connection) drop() {
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.Close()
}
