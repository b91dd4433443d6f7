package net

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/netip"
	"sync"
	"time"
)

// How failed passwords of one address are slowed down: the first is answered at once, the second after firstDelay, then twice
// as late each time up to longestDelay, until the address gave no wrong one for forgetAfter. Who knows the password
// is never delayed, also from that address.
const (
	firstDelay      = 100 * time.Millisecond
	longestDelay    = 5 * time.Second
	forgetAfter     = time.Minute
	maxRemembered   = 4096 // addresses
	prefixBitsOfSix = 64   // one host has at least so much of IPv6 for itself
)

// guard decides which peers of a server need the password, and knows it.
type guard struct {
	digest         [sha256.Size]byte
	open           bool // there is no password
	allowLocalhost bool

	mu       sync.Mutex
	failures map[netip.Prefix]failure
}

// failure is what is remembered of an address that gave wrong passwords.
type failure struct {
	count int
	last  time.Time
}

func newGuard(password string, allowLocalhost bool) *guard {
	return &guard{
		digest:         sha256.Sum256([]byte(password)),
		open:           password == "",
		allowLocalhost: allowLocalhost,
		failures:       make(map[netip.Prefix]failure),
	}
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

// failed counts a wrong password and says how long its answer is to be held back.
func (g *guard) failed(address netip.Addr, now time.Time) time.Duration {
	bits := address.BitLen()
	if address.Is6() {
		bits = prefixBitsOfSix
	}
	prefix, _ := address.Prefix(bits) // fails for no address at all: those share one entry

	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.failures[prefix]
	if !ok && len(g.failures) >= maxRemembered {
		g.makeRoom(now)
	}
	if now.Sub(known.last) > forgetAfter {
		known.count = 0
	}
	g.failures[prefix] = failure{count: known.count + 1, last: now}
	if known.count == 0 {
		return 0
	}
	return min(firstDelay<<min(known.count-1, 10), longestDelay)
}

// makeRoom forgets the addresses whose time has come, or, if there are none, the one that was quiet for longest.
func (g *guard) makeRoom(now time.Time) {
	var oldest netip.Prefix
	oldestTime := now
	for prefix, failure := range g.failures {
		if now.Sub(failure.last) > forgetAfter {
			delete(g.failures, prefix)
		} else if failure.last.Before(oldestTime) {
			oldest, oldestTime = prefix, failure.last
		}
	}
	if len(g.failures) >= maxRemembered {
		delete(g.failures, oldest)
	}
}

// entry is how far one peer has come with the guard. A nil entry is that of a peer that needs no password.
// It belongs to the goroutine that reads the link.
type entry struct {
	guard    *guard
	address  netip.Addr
	accepted time.Time
	deadline time.Time // by which the password must have come
	admitted func()    // called once, when it came
	proven   bool
}

// needed tells whether the password is still to come.
func (e *entry) needed() bool { return e != nil && !e.proven }

// admit checks the password.
func (e *entry) admit(password string) bool {
	if !e.guard.knows(password) {
		return false
	}
	e.proven = true
	e.admitted()
	return true
}

func (e *entry) failed() time.Duration { return e.guard.failed(e.address, time.Now()) }

// addressOf is the address of a peer as the guard counts it; the zero Addr where it has none.
func addressOf(remote net.Addr) netip.Addr {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
