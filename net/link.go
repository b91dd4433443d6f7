package net

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"jobd/net/principal"
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
	// Handlers answer the requests that the peer may send us. The peer needs no password, since we have
	// chosen it.
	Handlers       map[string]Handler
	Password       string        // sent with our first request; empty: none
	MaxMessageSize int           // bytes of a frame that the peer may send; 0: 16 MiB
	FrameTimeout   time.Duration // within which a frame must be complete once begun; 0: 30 s
	Logger         *slog.Logger  // nil: none
	// TLS gives the configuration for a link that Connect makes; nil: it has none.
	TLS func() (*tls.Config, error)
	// Dial makes the connection of Connect; nil: as the function Dial does.
	Dial         func(ctx context.Context, address string) (net.Conn, error)
	Codes        bool            // ask the peer for the codes of its errors
	PeerIsMaster bool            // the peer is a master that we chose: it names the client that it asks for
	MasterScope  principal.Scope // what it may ask at most where nobody has verified that it is that master; 0: everything

	maxRequests int     // of the peer, under way at once; 0: 16,384
	answerLimit int     // bytes of a frame while the peer owes an answer; 0: answerLimit
	memory      *memory // the server's; nil: bounded by nothing but the link's own limits
}

// Link is one connection, each end of which may send requests. Its methods are safe for concurrent
// use.
type Link struct {
	conn     net.Conn
	remote   net.Addr // see RemoteAddr
	config   LinkConfig
	stopping *atomic.Bool        // no further requests are served: of the server, or the link's own
	slots    *semaphore.Weighted // one for each request of the peer under way
	turn     chan struct{}       // held by the request that has not let those behind it begin
	log      *slog.Logger        // names the peer and is bounded: no peer can fill the log
	born     time.Time
	memory   *memory
	replying chan struct{} // held by the answer that is on its way to the writer

	frames chan *outgoing
	wrote  chan struct{} // closed when the writer has ended

	ctx    context.Context // of the handlers; ends with the link
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // handlers and the writer
	reads  atomic.Uint64  // how often something was received

	mu       sync.Mutex
	number   int64
	calls    map[int64]chan message // requests that wait for their response
	pings    []ping                 // sent and not answered, the oldest first
	password string                 // still to be sent with every request: nothing was answered yet

	// What follows belongs to the goroutine in Run.
	verified bool                            // the peer that we have called is the one that we meant
	secured  *secured                        // the connection, where it may be TLS; nil: it is plain
	guard    *guard                          // that knows who the peer is; nil: we chose it
	session  *principal.Session              // who it is, as its first request, or the one that brought another password, has shown
	judged   bool                            // a request has
	digest   [sha256.Size]byte               // of the password that it brought
	used     map[*principal.Line]func() bool // each credential that the peer has used; the wait for its end is stopped
	deadline time.Time                       // by which the password must have come; zero: none is needed
	shown    func()                          // called once, when the peer has shown that it belongs here; nil: nobody asks
	receiver receiver
	held     int64 // bytes of the server's memory, for what is received
}

// Connect makes a link to a server's address, see Dial. A unix socket has no TLS: Dial knows who listens
// there. The caller must call Run, which receives what the server sends.
func Connect(ctx context.Context, address string, config LinkConfig) (*Link, error) {
	dial := Dial
	if config.Dial != nil {
		dial = config.Dial
	}
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("no connection to %s: %w", address, err)
	}
	verified := isPath(address)
	if !verified {
		if conn, err = Secure(ctx, conn, config.TLS); err != nil {
			return nil, fmt.Errorf("no connection to %s: %w", address, err)
		}
		verified = config.TLS != nil
	}
	link := NewLink(conn, config)
	link.verified = verified
	return link, nil
}

// dialCause is why there is no connection, as err says of dialling, without the address and the name of
// the system's call.
func dialCause(err error) error {
	var dialled *net.OpError
	if errors.As(err, &dialled) && dialled.Op == "dial" {
		err = dialled.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return err
}

// NewLink makes a link of a connection, which belongs to it from then on. The caller must call Run.
func NewLink(conn net.Conn, config LinkConfig) *Link {
	config = config.withDefaults()
	watch(conn, writeTimeout)
	l := &Link{
		conn:     conn,
		config:   config,
		stopping: new(atomic.Bool),
		slots:    semaphore.NewWeighted(int64(config.maxRequests)),
		turn:     make(chan struct{}, 1),
		remote:   remoteOf(conn),
		born:     time.Now(),
		memory:   config.memory,
		replying: make(chan struct{}, 1),
		frames:   make(chan *outgoing, mostQueued),
		wrote:    make(chan struct{}),
		number:   rand.Int64N(firstNumberLimit),
		password: config.Password,
	}
	l.log = config.Logger.With("peer", l.remote.String())
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

func (c LinkConfig) withDefaults() LinkConfig {
	c.MaxMessageSize = cmp.Or(c.MaxMessageSize, 16<<20)
	c.FrameTimeout = cmp.Or(c.FrameTimeout, 30*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.maxRequests = cmp.Or(c.maxRequests, 16384)
	c.answerLimit = cmp.Or(c.answerLimit, answerLimit)
	if c.memory == nil { // else the server's logger is bounded already
		c.Logger = Bounded(c.Logger, linesAtOnce, lineEvery)
	}
	return c
}

// Shutdown lets the requests of the peer that are under way finish, refuses new ones, writes the
// answers, and closes the link; when ctx ends, at once. It returns nil or ctx's error.
func (l *Link) Shutdown(ctx context.Context) error {
	defer l.Close()
	l.stopping.Store(true)
	return l.finishRequests(ctx)
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

// RemoteAddr is the peer's address, as logs and the journal call it; of a unix socket's peer a PeerAddr.
func (l *Link) RemoteAddr() net.Addr { return l.remote }

// end closes everything, once; the first cause stays.
func (l *Link) end(cause error) {
	switch {
	case cause == nil:
		cause = ErrLinkClosed
	case !errors.Is(cause, ErrLinkClosed):
		cause = fmt.Errorf("%w: %w", ErrLinkClosed, cause)
	}
	l.cancel(cause)
	_ = l.conn.Close() // nothing is lost by it: what matters was flushed before
}

// finishRequests waits for the requests under way, whose answers are written then, or the link's
// end.
func (l *Link) finishRequests(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	all := int64(l.config.maxRequests)
	if err := l.slots.Acquire(ctx, all); err != nil {
		if l.Err() != nil {
			return nil
		}
		return err
	}
	l.slots.Release(all)
	return nil
}

// ping is a ping that is about to leave, or has left, and has no answer yet. Pongs bear no number,
// but a peer answers pings in the order in which they came, in between reading what else we sent: the
// pong to a ping proves that the peer has read everything that was put before it.
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

// Request asks the peer and waits for its answer: data (nil where it is null), or a *RemoteError;
// ErrLinkClosed is among the causes where the link ends first, and then nobody knows whether the
// request was carried out, unless ErrUnsent is among them too: then the peer has certainly not got
// it. Data that goes to several links is best given as Encoded.
func (l *Link) Request(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	return l.request(ctx, typ, nil, data)
}

func (l *Link) request(ctx context.Context, typ string, by *asker, data any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	body := l.call(answer)
	defer l.forget(body.No)
	body.Type, body.By = typ, by
	further := ""
	if l.config.Codes {
		further = "," + wantsCodes
	}
	parts, err := encodeRequest(body, data, further)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", typ, err)
	}
	frame := &outgoing{parts: parts}
	if err := l.queue(ctx, frame); err != nil {
		return nil, fmt.Errorf("request %s: %w: %w", typ, ErrUnsent, err)
	}
	select {
	case m := <-answer:
		return m.answer()
	case <-l.Done():
		select {
		case m := <-answer: // the last that the peer said
			return m.answer()
		default:
		}
		<-l.wrote // until then its connection may still take the frame
		select {
		case <-frame.taken:
			return nil, fmt.Errorf("request %s: %w", typ, l.Err())
		default:
			return nil, fmt.Errorf("request %s: %w: %w", typ, ErrUnsent, l.Err())
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", typ, ctx.Err())
	}
}

// answer is what a response says.
func (m message) answer() (json.RawMessage, error) {
	if m.failed {
		return nil, &RemoteError{Text: m.failure, Code: m.code}
	}
	return m.data, nil
}

// call gives a request its number, and the password while the peer may still ask for it.
func (l *Link) call(answer chan message) requestBody {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[int64]chan message)
	}
	for taken := true; taken; _, taken = l.calls[l.number] {
		l.number = l.number%lastNumber + 1
	}
	l.calls[l.number] = answer
	return requestBody{No: l.number, Password: l.password}
}

func (l *Link) forget(no int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, no)
}

// hasAsked tells whether we ever sent the peer a request.
func (l *Link) hasAsked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls != nil
}

// asks tells whether a request of ours waits for its response.
func (l *Link) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}

// Ping asks the peer for a sign of life and waits for it. Without an error the peer has read
// everything that was sent to it before the call.
func (l *Link) Ping(ctx context.Context) error {
	// What the caller has queued leaves before any ping that is noted from now on.
	p := ping{sent: time.Now(), answered: make(chan struct{})}
	l.mu.Lock()
	l.pings = append(l.pings, p)
	l.mu.Unlock()
	if err := l.queue(ctx, &outgoing{parts: [][]byte{pingFrame}}); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pings = slices.DeleteFunc(l.pings, func(other ping) bool { return other == p })
		return fmt.Errorf("ping: %w", err)
	}
	select {
	case <-p.answered:
		return nil
	case <-l.Done():
		return fmt.Errorf("ping: %w", l.Err())
	case <-ctx.Done():
		return fmt.Errorf("ping: %w", ctx.Err())
	}
}

// ponged takes a pong for the answer to the oldest ping; where none was sent, for nothing.
func (l *Link) ponged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pings) == 0 {
		return
	}
	close(l.pings[0].answered)
	if l.pings = l.pings[1:]; len(l.pings) == 0 {
		l.pings = nil // an idle link keeps no room for them
	}
}

// Silence is for how long the peer has owed the answer to a ping, whether that has left or not; 0 where
// it owes none.
func (l *Link) Silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pings) == 0 {
		return 0
	}
	return time.Since(l.pings[0].sent)
}

// KeepAlive pings the peer every interval, until ctx or the link ends. A peer from which nothing at
// all came for three intervals is taken for dead, and the link closed. It returns why it ended.
func (l *Link) KeepAlive(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	seen, silent := l.reads.Load(), 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Done():
			return l.Err()
		case <-ticker.C:
		}
		if now := l.reads.Load(); now != seen {
			seen, silent = now, 0
		}
		if silent == 3 {
			l.end(fmt.Errorf("peer silent for %v", 3*interval))
			return l.Err()
		}
		silent++
		_ = l.Ping(now)
	}
}

// How a link's peer is watched while nothing is said: its host may be gone without a word.
var watching = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// tcpUserTimeout is for how many milliseconds Linux waits for what was sent to be acknowledged.
const tcpUserTimeout = 18

// watch has the kernel notice when the peer's host is gone, whether or not something is under way
// to it.
func watch(conn net.Conn, timeout time.Duration) {
	tcp, ok := carrierOf(conn).(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(watching) // where it fails, the link is dropped later
	raw, err := tcp.SyscallConn()
	if err != nil || runtime.GOOS != "linux" {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout.Milliseconds()))
	})
}

// A peer from which nothing more comes has closed its half of the connection, as many clients do
// after their last request, and reads on; or its process has ended. Both look the same until
// something is sent: the system of a process that has ended answers that with a reset, and what is
// sent then fails. So spaces are sent, which say nothing: JSON may have any number of them before a
// value.
var nothing = []byte(" ")

// When a peer that said its last gets a space: soon, and then from time to time.
const (
	firstSpace = 50 * time.Millisecond
	nextSpace  = 5 * time.Second
)

// hearOut answers what a peer that says no more has asked, for as long as it takes bytes.
func (l *Link) hearOut() {
	l.tasks.Go(func() {
		for interval := firstSpace; ; interval = nextSpace {
			select {
			case <-time.After(interval):
				if len(l.replying) == 0 { // beside an answer it is not needed
					_ = l.queue(now, &outgoing{parts: [][]byte{nothing}})
				}
			case <-l.Done():
				return
			}
		}
	})
	_ = l.finishRequests(l.ctx)
	_ = l.send(l.ctx) // and what answers no request
}
