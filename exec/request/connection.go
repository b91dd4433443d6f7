package request

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"syscall"
	"time"
)

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
