package net

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"jobd/net/principal"
)

// Who a peer is: by its address or account, its certificate, and what it gives; at this port, and at
// the other door, HTTP.

// guard knows who a server's peers are: by what the file of principals says, and by the password. It slows
// down the addresses that gave a wrong one lately, where it is short enough to be guessed.
type guard struct {
	principals     *principal.Keeper // nil: there is only the password
	digest         [sha256.Size]byte
	open           bool // there is no password
	short          bool // it may be guessed
	allowLocalhost bool

	mu        sync.Mutex
	throttles map[any]*authThrottle // by what originOf gives
}

// IsShort tells whether a password has so few characters, less than 16, that it may be guessed online:
// judging it is throttled.
func IsShort(password string) bool { return utf8.RuneCountInString(password) < 16 }

func newGuard(principals *principal.Keeper, password string, allowLocalhost bool) *guard {
	return &guard{
		principals: principals,
		digest:     sha256.Sum256([]byte(password)), open: password == "", short: IsShort(password), allowLocalhost: allowLocalhost,
		throttles: make(map[any]*authThrottle),
	}
}

// known is who a peer is that gives no password: nil where it must give one. Before the first request it
// is not known yet which certificate a peer has.
func (g *guard) known(peer Peer) *principal.Session {
	line := g.principals.Proxy(peer.User)
	if line == nil {
		line = g.principals.Certificate(peer.Names)
	}
	if line == nil {
		line = g.principals.UID(peer.UID)
	}
	if line == nil && peer.Local {
		line = g.principals.Localhost()
	}
	switch {
	case line != nil:
		return line.Of(peer.Address)
	case peer.Local && g.allowLocalhost && g.principals != nil:
		return principal.Known("localhost", "", peer.Address)
	case g.principals == nil && (g.open || peer.Local && g.allowLocalhost):
		return principal.Known("", "", peer.Address)
	}
	return nil
}

// judge tells who a peer is that gives a password, or a token in its place: nil where it is wrong. A peer may
// have to wait for its turn until the deadline.
func (g *guard) judge(ctx context.Context, conn net.Conn, password string, deadline time.Time) (*principal.Session, error) {
	address := remoteOf(conn).String()
	if g.principals != nil {
		line := g.principals.Token(password)
		switch {
		case line != nil:
			return line.Of(address), nil
		case password == "":
			return g.known(PeerOf(conn)), nil
		case g.open, principal.IsToken(password) && !g.knows(password):
			return nil, nil // there is no password that it could be, or nobody can guess it
		}
	}
	if admitted, err := g.admits(ctx, conn, password, deadline); !admitted || err != nil {
		return nil, err
	}
	return g.knowing(address), nil
}

// knowing is whoever knows the password.
func (g *guard) knowing(address string) *principal.Session {
	if g.principals != nil {
		return principal.Known("password", "", address)
	}
	return principal.Known("", "", address)
}

// knows compares in constant time; digests, so that not even the password's length shows.
func (g *guard) knows(password string) bool {
	digest := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(digest[:], g.digest[:]) == 1
}

// What ends a link whose password was not judged: in time, for all the wrong ones of its address; or
// at all, since the peer has hung up.
var (
	errCrowdedOut = errors.New("too many wrong passwords from this address")
	errGone       = errors.New("peer is gone")
)

// admits judges the password of a peer, which may have to wait for its turn until the deadline.
func (g *guard) admits(ctx context.Context, conn net.Conn, password string, deadline time.Time) (bool, error) {
	if !g.short {
		return g.knows(password), nil
	}
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, errCrowdedOut)
	defer cancel()
	from := originOf(conn)
	if err := g.wait(ctx, from, conn); err != nil {
		return false, err
	}
	if !g.knows(password) {
		g.failed(from)
		return false, nil
	}
	return true, nil
}

// An address that has given a wrong password is judged once each judgedEvery, until it has given
// none for throttledFor.
const (
	judgedEvery   = 100 * time.Millisecond
	throttledFor  = time.Minute
	maxRemembered = 4096 // addresses
)

// authThrottle slows down one address that gave a wrong password.
type authThrottle struct {
	last time.Time     // of the wrong passwords; guarded by guard.mu
	turn chan struct{} // held by the peer that is judged next; the others wait in the order of arrival
	rate *rate.Limiter
}

// wait returns when the address's next password may be judged. ctx ends the wait, and so does a
// peer that has hung up: it takes no turn of those behind it.
func (g *guard) wait(ctx context.Context, from any, conn net.Conn) error {
	g.mu.Lock()
	one := g.throttles[from]
	free := one == nil || time.Since(one.last) > throttledFor
	g.mu.Unlock()
	if free {
		return nil
	}
	select {
	case one.turn <- struct{}{}:
		defer func() { <-one.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if hungUp(conn) {
		return errGone
	}
	if one.rate.Wait(ctx) != nil { // also where the deadline comes before the turn
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if hungUp(conn) {
		return errGone
	}
	return nil
}

// failed notes a wrong password.
func (g *guard) failed(from any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.throttles[from]
	if one == nil {
		if len(g.throttles) >= maxRemembered {
			g.forget()
		}
		one = &authThrottle{turn: make(chan struct{}, 1), rate: rate.NewLimiter(rate.Every(judgedEvery), 1)}
		one.rate.Allow() // this one was judged
		g.throttles[from] = one
	}
	one.last = time.Now()
}

// forget makes room: it forgets what is over, and one address at least. Callers must hold mu.
func (g *guard) forget() {
	for from, one := range g.throttles {
		if len(g.throttles) >= maxRemembered || time.Since(one.last) > throttledFor {
			delete(g.throttles, from)
		}
	}
}

// hungUp tells whether a peer has closed its end, even behind bytes that nobody has read yet.
func hungUp(conn net.Conn) bool {
	const tcpInfo, established = 11, 1 // of Linux; the state is the first byte of struct tcp_info
	carrier, ok := carrierOf(conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := carrier.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	_, isTCP := carrier.(*net.TCPConn)
	err = raw.Control(func(fd uintptr) {
		if !isTCP { // a unix socket's peer that is gone takes nothing, not even no bytes
			_, err := syscall.SendmsgN(int(fd), nil, nil, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
			gone = err != nil
			return
		}
		info, err := syscall.GetsockoptInet4Addr(int(fd), syscall.IPPROTO_TCP, tcpInfo) // four bytes of it
		gone = err == nil && info[0] != established
	})
	return gone || err != nil
}

// addressOf is the address of a peer as the guard counts it; the zero Addr where it has none.
func addressOf(remote net.Addr) netip.Addr {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// prefixBitsOfSix is how much of IPv6 one host has at least for itself.
const prefixBitsOfSix = 64

// prefixOf is what counts as one address. Peers without any share one.
func prefixOf(address netip.Addr) netip.Prefix {
	bits := address.BitLen()
	if address.Is6() {
		bits = prefixBitsOfSix
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// A peer over a unix socket has no address. The kernel names its account and process, as they were
// when it connected, or, of a listener, when it began to listen.

// peerUID is the account of a unix socket's peer; -1 for all others.
func peerUID(conn net.Conn) int {
	if peer := credentials(conn); peer != nil {
		return int(peer.Uid)
	}
	return -1
}

// PeerAddr is the address of a unix socket's peer: its account and process.
type PeerAddr struct{ uid, PID int }

// Network implements net.Addr.
func (PeerAddr) Network() string { return "unix" }

// String implements net.Addr.
func (a PeerAddr) String() string { return fmt.Sprintf("uid %d pid %d", a.uid, a.PID) }

// remoteOf is the address of a peer.
func remoteOf(conn net.Conn) net.Addr {
	if peer := credentials(conn); peer != nil {
		return PeerAddr{int(peer.Uid), int(peer.Pid)}
	}
	return conn.RemoteAddr()
}

// unixPeer knows the text of a PeerAddr.
var unixPeer = regexp.MustCompile(`^uid [0-9]{1,10} pid [0-9]{1,10}$`)

// credentials are those of a unix socket's peer; nil: the kernel names none.
func credentials(conn net.Conn) (peer *syscall.Ucred) {
	local, is := carrierOf(conn).(*net.UnixConn)
	if !is {
		return nil
	}
	if raw, err := local.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			peer, _ = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
	}
	return peer
}

// originOf is what the guard counts as one address: the network of it, or the account of a unix
// socket's peer.
func originOf(conn net.Conn) any {
	if uid := peerUID(conn); uid >= 0 {
		return uid
	}
	return prefixOf(addressOf(conn.RemoteAddr()))
}

// Dial makes a connection to an address: "host:port", or the path of a unix socket. Who listens on
// that must be somebody who may know a password: root, as systemd is, this process's own account, or
// jobd's.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if isPath(address) {
		network = "unix"
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, dialCause(err)
	}
	if uid := peerUID(conn); network == "unix" && uid != 0 && uid != os.Geteuid() {
		if jobd, err := user.Lookup("jobd"); err != nil || jobd.Uid != strconv.Itoa(uid) {
			_ = conn.Close()
			return nil, fmt.Errorf("uid %d listens there; it is not root, jobd or this process's account: nothing was sent. "+
				"If that is right, run this as that account, or use host and port", uid)
		}
	}
	return conn, nil
}

// isPath tells whether an address is a unix socket's path.
func isPath(address string) bool { return strings.HasPrefix(address, "/") }

// A daemon has another door beside its port: HTTP. Who comes there is judged by the same guard, and what it asks
// for goes through the same handlers, over a link inside the process.

// Peer is what a connection tells of its other end.
type Peer struct {
	Address string   // as logs and the journal call it
	Names   []string // the DNS names of its certificate, which was verified
	User    string   // whom it says that it asks for, where it is a proxy that is believed; "": nobody
	UID     int      // its account on this host; -1: not known
	Local   bool     // it is on this host
	TLS     bool
}

// PeerOf looks at a connection.
func PeerOf(conn net.Conn) Peer {
	s, may := conn.(*secured)
	return Peer{
		Address: remoteOf(conn).String(), Names: namesOf(conn), UID: peerUID(conn),
		Local: peerUID(conn) >= 0 || addressOf(conn.RemoteAddr()).IsLoopback(), TLS: may && s.over.Load() != nil,
	}
}

// Known is who a peer is by what is known of it: nil where it must give a token or the password.
func (s *Server) Known(peer Peer) *principal.Session { return s.guard.known(peer) }

// Judge tells who gives a token or the password over a connection: nil where it is wrong. As with links, it may
// have to wait for its turn; the error says why that did not come.
func (s *Server) Judge(ctx context.Context, conn net.Conn, secret string) (*principal.Session, error) {
	if secret == "" {
		return nil, nil
	}
	return s.guard.judge(ctx, conn, secret, time.Now().Add(handshakeTimeout))
}

// Recall is who has given the secret with this digest, SHA-256, before: nil where that is no credential any more.
func (s *Server) Recall(digest [sha256.Size]byte, address string) *principal.Session {
	if line := s.guard.principals.Digest(digest); line != nil {
		return line.Of(address)
	}
	if s.guard.open || subtle.ConstantTimeCompare(digest[:], s.guard.digest[:]) != 1 {
		return nil
	}
	return s.guard.knowing(address)
}

// Attach serves a connection inside the process, whose other end asks for somebody that is known already.
func (s *Server) Attach(conn net.Conn, session *principal.Session) {
	link := NewLink(conn, s.link)
	link.log = s.link.Logger.With("peer", session.By())
	link.stopping, link.guard, link.session, link.judged = &s.stopping, s.guard, session, true
	link.use(session)
	s.run(link, func() {})
}

// Offer makes connections of a listener TLS where their first byte says so. Those of unix sockets stay as they are.
func Offer(listener net.Listener, config *tls.Config) net.Listener { return offering{listener, config} }

type offering struct {
	net.Listener
	config *tls.Config
}

// Accept implements net.Listener.
func (o offering) Accept() (net.Conn, error) {
	conn, err := o.Listener.Accept()
	if err != nil || peerUID(conn) >= 0 {
		return conn, err
	}
	return maySecure(conn, o.config, false), nil
}
