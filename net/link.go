package net

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Numbers of requests run from 1 to lastNumber; a link begins somewhere below firstNumberLimit.
const (
	lastNumber       = 999998
	firstNumberLimit = 900000
)

// writeTimeout is the time in which the peer must take 64 KiB.
const writeTimeout = 30 * time.Second

// LinkConfig says how a link is kept. The zero value works.
type LinkConfig struct {
	Handlers       map[string]Handler // requests that the peer may send us: it needs no password, since it was us who chose it
	Password       string             // sent with our first request; empty: none
	MaxMessageSize int                // bytes of a frame that the peer may send; 0: 16 MiB
	FrameTimeout   time.Duration      // within which a frame must be complete once begun; 0: 30 s
	Logger         *slog.Logger       // nil: none
	Codes          bool               // errors that the peer answers are to bear their codes
	PeerIsMaster   bool               // the peer is a master that we chose: it says for whom it asks, see Caller

	maxRequests int      // of the peer, under way at once; 0: 16,384
	bound       *chatter // what peers may have us log; nil: one of the link's own
	memory      *memory  // the server's
}

// Link is one connection, each end of which may send requests. Its methods are safe for concurrent
// use.
type Link struct {
	conn    net.Conn
	config  LinkConfig
	gate    *gate         // of the server, or the link's own
	entry   *entry        // nil: the peer needs no password
	noticed func()        // called once, when the peer has asked something; nil: nobody asks
	slots   chan struct{} // one for each request of the peer under way
	log     *slog.Logger  // names the peer and is bounded by its address: no peer can fill the log
	born    time.Time
	turns   turns
	out     *outbox
	memory  *memory // nil: bounded by nothing but the link's own limits

	replying chan struct{} // held by the answer that is on its way to the outbox

	ctx    context.Context // of the handlers; ends with the link
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // handlers and the writer
	reads  atomic.Uint64  // how often something was received

	mu       sync.Mutex
	number   int64
	calls    map[int64]chan message // requests that wait for their response
	pings    []ping                 // sent and not answered, the oldest first
	password string                 // still to be sent with every request: nothing was answered yet

	receiver receiver // belongs to the goroutine in Run
}

// Connect makes a link to a server's address, "host:port". The caller must call Run, which
// receives what the server sends.
func Connect(ctx context.Context, address string, config LinkConfig) (*Link, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return NewLink(conn, config), nil
}

// NewLink makes a link of a connection, which belongs to it from then on. The caller must call Run.
func NewLink(conn net.Conn, config LinkConfig) *Link {
	return newLink(conn, config, new(gate), nil)
}

func newLink(conn net.Conn, config LinkConfig, gate *gate, entry *entry) *Link {
	config = config.withDefaults()
	watch(conn, writeTimeout)
	l := &Link{
		conn:     conn,
		config:   config,
		gate:     gate,
		entry:    entry,
		log:      config.bound.logger(config.Logger, conn.RemoteAddr()),
		born:     time.Now(),
		number:   rand.Int64N(firstNumberLimit),
		password: config.Password,
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.slots = make(chan struct{}, config.maxRequests)
	l.replying, l.memory = make(chan struct{}, 1), config.memory
	l.out = &outbox{conn: conn, limit: min(config.MaxMessageSize, mostBacklog), timeout: writeTimeout, spawn: l.tasks.Go, fail: l.end}
	return l
}

func (c LinkConfig) withDefaults() LinkConfig {
	if c.MaxMessageSize == 0 {
		c.MaxMessageSize = 16 << 20
	}
	if c.maxRequests == 0 {
		c.maxRequests = 16384
	}
	if c.FrameTimeout == 0 {
		c.FrameTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.bound == nil {
		c.bound = &chatter{log: c.Logger}
	}
	return c
}

// Shutdown lets the requests of the peer that are under way finish, refuses new ones, writes the
// answers, and closes the link; when ctx ends, at once. It returns nil or ctx's error. On a
// server's link it concerns all links of the server: use Server.Shutdown there.
func (l *Link) Shutdown(ctx context.Context) error {
	defer l.Close()
	select {
	case <-l.gate.shut():
		return l.out.flush(ctx)
	case <-l.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the link at once. Requests that wait for an answer fail.
func (l *Link) Close() error {
	l.end(nil)
	return nil
}

// Abandon is Close with a reason, which Err and the requests that wait tell.
func (l *Link) Abandon(reason error) { l.end(reason) }

// Born is when the connection was made: of two links of one peer, it tells the newer.
func (l *Link) Born() time.Time { return l.born }

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.ctx.Done() }

// Err tells why the link has ended: ErrLinkClosed is among the causes. It is nil while the link
// lives.
func (l *Link) Err() error {
	if l.ctx.Err() == nil {
		return nil
	}
	return context.Cause(l.ctx)
}

// RemoteAddr is the peer's address.
func (l *Link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// end closes everything, once; the first cause stays.
func (l *Link) end(cause error) {
	switch {
	case cause == nil:
		cause = ErrLinkClosed
	case !errors.Is(cause, ErrLinkClosed):
		cause = fmt.Errorf("%w: %w", ErrLinkClosed, cause)
	}
	l.cancel(cause)
	l.out.close()
	_ = l.conn.Close() // nothing is lost by it: what matters was flushed before
}

// why is the link's own account of its end, where err says no more than that it ended.
func (l *Link) why(err error) error {
	if ended := l.Err(); ended != nil && errors.Is(err, ErrLinkClosed) {
		return ended
	}
	return err
}

// finishRequests waits for the requests under way, and until all answers are written. It must be
// the last that the reading goroutine does with requests: it takes all slots.
func (l *Link) finishRequests(ctx context.Context) {
	for range cap(l.slots) {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	_ = l.out.flush(ctx)
}

// ping is one that was sent and not answered yet. Pongs bear no number, but a peer answers pings in
// the order in which they came, in between reading what else we sent: the pong to a ping
// proves that the peer has read everything that was put before it.
type ping struct {
	sent     time.Time
	answered chan struct{} // closed by its pong
}

// Handler answers requests of one type. What it returns becomes JSON and the response's data; an
// error that is a Refusal is told to the peer, any other is logged and told as "internal error".
// The context ends when the link does.
//
// Every handler has a goroutine of its own, but the requests of one link take their turns: a
// handler begins when the one before it has returned, so that a client that sends pause and status
// in one packet sees the pause. A handler that waits for something long (a job, another host) must
// call request.Proceed once the requests after it may begin.
type Handler func(ctx context.Context, link *Link, request Request) (data any, err error)
