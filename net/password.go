package net

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/netip"
	"time"
)

// guard decides which peers of a server need the password, and knows it.
type guard struct {
	digest         [sha256.Size]byte
	open           bool // there is no password
	allowLocalhost bool
	suspects       suspects
}

func newGuard(password string, allowLocalhost bool) *guard {
	return &guard{digest: sha256.Sum256([]byte(password)), open: password == "", allowLocalhost: allowLocalhost}
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
	address  netip.Addr
	deadline time.Time // by which the password must have come
	admitted func()    // called once, when it came
	proven   bool
}

// needed tells whether the password is still to come.
func (e *entry) needed() bool { return e != nil && !e.proven }

// errCrowdedOut ends a link whose password was not looked at in time, for all the wrong ones of its
// address.
var errCrowdedOut = errors.New("too many wrong passwords from this address")

// admit checks the password, which waits where its address gave too many wrong ones lately. Of a
// wrong one it tells how long the answer is to be held back.
func (e *entry) admit(ctx context.Context, password string) (admitted bool, delay time.Duration, err error) {
	ctx, cancel := context.WithDeadlineCause(ctx, e.deadline, errCrowdedOut)
	defer cancel()
	right := e.guard.knows(password)
	delay, err = e.guard.suspects.judge(ctx, prefixOf(e.address), right)
	if err != nil || !right {
		return false, delay, err
	}
	e.proven = true
	e.admitted()
	return true, 0, nil
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
