package net

import (
	"container/list"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// guard decides which peers of a server need the password, and knows it.
type guard struct {
	digest         [sha256.Size]byte
	open           bool // there is no password
	allowLocalhost bool
	throttle       *throttle // nil: the password is too long to be guessed
}

// IsShort tells whether a password has so few characters, less than 16, that it may be guessed online:
// judging it is throttled.
func IsShort(password string) bool { return utf8.RuneCountInString(password) < 16 }

func newGuard(password string, allowLocalhost bool) *guard {
	g := &guard{digest: sha256.Sum256([]byte(password)), open: password == "", allowLocalhost: allowLocalhost}
	if IsShort(password) {
		g.throttle = &throttle{}
	}
	return g
}

// lets tells whether a peer at this address needs no password.
func (g *guard) lets(address netip.Addr) bool {
	return g.open || g.allowLocalhost && address.IsLoopback()
}

// knows compares in constant time; digests, so that not even the password's length shows.
func (g *guard) knows(password string) bool {
	digest := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(digest[:], g.digest[:]) == 1
}

// entry is how far one peer has come with the guard. A nil entry is that of a peer that needs no
// password. It belongs to the goroutine that reads the link.
type entry struct {
	guard    *guard
	conn     net.Conn
	deadline time.Time // by which the password must have come
	admitted func()    // called once, when it came
	proven   bool
}

// needed tells whether the password is still to come.
func (e *entry) needed() bool { return e != nil && !e.proven }

// errCrowdedOut ends a link whose password was not judged in time, for all the wrong ones of its
// address.
var errCrowdedOut = errors.New("too many wrong passwords from this address")

// admit judges the password. Where the throttle slows its address down, it waits for its turn.
func (e *entry) admit(ctx context.Context, password string) (admitted bool, err error) {
	if throttle := e.guard.throttle; throttle != nil {
		ctx, cancel := context.WithDeadlineCause(ctx, e.deadline, errCrowdedOut)
		defer cancel()
		from := prefixOf(addressOf(e.conn.RemoteAddr()))
		if err := throttle.wait(ctx, from, e.conn); err != nil {
			return false, err
		}
		if !e.guard.knows(password) {
			throttle.failed(from)
			return false, nil
		}
	} else if !e.guard.knows(password) {
		return false, nil
	}
	e.proven = true
	e.admitted()
	return true, nil
}

// An address that has given a wrong password is judged once each judgedEvery, until it has given
// none for throttledFor.
const (
	judgedEvery   = 100 * time.Millisecond
	throttledFor  = time.Minute
	maxRemembered = 4096 // addresses
)

// throttle slows down the addresses that gave a wrong password lately. The zero value is ready; it
// is safe for concurrent use.
type throttle struct {
	mu    sync.Mutex
	known map[netip.Prefix]*suspect
}

// suspect is one address.
type suspect struct {
	last time.Time     // of the wrong passwords; guarded by throttle.mu
	turn chan struct{} // held by the peer that is judged next; the others wait in the order of arrival
	next time.Time     // when that may be; belongs to the one that holds turn
}

// wait returns when the address's next password may be judged. ctx ends the wait, and so does a
// peer that has hung up.
func (t *throttle) wait(ctx context.Context, from netip.Prefix, conn net.Conn) error {
	t.mu.Lock()
	one := t.known[from]
	if one != nil && time.Since(one.last) > throttledFor {
		one = nil
	}
	t.mu.Unlock()
	if one == nil {
		return nil
	}
	select {
	case one.turn <- struct{}{}:
		defer func() { <-one.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if hungUp(conn) { // it takes no turn of those that wait behind it
		return errGone
	}
	select {
	case <-time.After(time.Until(one.next)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if hungUp(conn) {
		return errGone
	}
	one.next = time.Now().Add(judgedEvery)
	return nil
}

// failed notes a wrong password.
func (t *throttle) failed(from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if one := t.known[from]; one != nil {
		one.last = now
		return
	}
	if t.known == nil {
		t.known = make(map[netip.Prefix]*suspect)
	}
	if len(t.known) >= maxRemembered {
		t.makeRoom(now)
	}
	t.known[from] = &suspect{last: now, turn: make(chan struct{}, 1), next: now.Add(judgedEvery)}
}

// makeRoom forgets what is over, and one address at least. Callers must hold mu.
func (t *throttle) makeRoom(now time.Time) {
	for from, one := range t.known {
		if len(t.known) >= maxRemembered || now.Sub(one.last) > throttledFor {
			delete(t.known, from)
		}
	}
}

// hungUp tells whether a peer has closed its end, even behind bytes that nobody has read yet.
func hungUp(conn net.Conn) bool {
	const tcpInfo, established = 11, 1 // of Linux; the state is the first byte of struct tcp_info
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
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

// newcomers are links that have not shown yet that somebody needs them, the oldest first. The zero
// value has room for none.
type newcomers struct {
	most int
	all  list.List // of *newcomer
}

// newcomer is one of them. It is in one list of newcomers at most.
type newcomer struct {
	link *Link
	came time.Time
	in   *newcomers // nil: it has left
	at   *list.Element
}

func (n *newcomers) add(one *newcomer) { one.came, one.in, one.at = time.Now(), n, n.all.PushBack(one) }

// remove does nothing where one is not, or no longer, among them.
func (n *newcomers) remove(one *newcomer) {
	if one.in == n {
		n.all.Remove(one.at)
		one.in = nil
	}
}

// excess is the one that must go before one more may come; nil where there is room.
func (n *newcomers) excess() *newcomer {
	if n.all.Len() < n.most {
		return nil
	}
	return n.oldest()
}

// oldest is nil where there is none.
func (n *newcomers) oldest() *newcomer {
	if n.all.Len() == 0 {
		return nil
	}
	return n.all.Front().Value.(*newcomer)
}
