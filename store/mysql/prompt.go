package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// While a connection is made, the server may say nothing for so long only. The driver bounds the dial;
// behind one that takes connections and says no more it waits for each answer as long as for that of any
// statement. All answers together may take longer: on a slow link a connection takes several of its round
// trips, and no try would ever come to an end if those were bounded together.

// prompt makes connections to a server that answers. Its connector dials with dialHeard.
type prompt struct {
	sqldriver.Connector
	within time.Duration
}

// Connect implements driver.Connector.
func (p prompt) Connect(ctx context.Context) (sqldriver.Conn, error) {
	h := &hearing{within: p.within}
	conn, err := p.Connector.Connect(context.WithValue(ctx, hearingKey{}, h))
	if err != nil {
		if h.silent.Load() && ctx.Err() == nil {
			err = &silentServerError{p.within}
		}
		return nil, err
	}
	return conn, h.end()
}

// hearing is how a connection is heard while it is made.
type hearing struct {
	within time.Duration
	conn   net.Conn
	made   atomic.Bool
	silent atomic.Bool // nothing came for too long
}

type hearingKey struct{}

// dialHeard is dial for connections that prompt makes.
func dialHeard(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		h, asked := ctx.Value(hearingKey{}).(*hearing)
		if err != nil || !asked {
			return conn, err
		}
		h.conn = conn
		if system, ok := conn.(syscall.Conn); ok {
			return heardSystem{heard{conn, h}, system}, nil
		}
		return heard{conn, h}, nil
	}
}

// end lets the connection wait for answers as long as it is told to.
func (h *hearing) end() error {
	h.made.Store(true)
	if h.conn == nil {
		return nil
	}
	return h.conn.SetReadDeadline(time.Time{})
}

// heard is a connection that is heard.
type heard struct {
	net.Conn
	hearing *hearing
}

// Read implements net.Conn.
func (c heard) Read(b []byte) (int, error) {
	h := c.hearing
	if h.made.Load() {
		return c.Conn.Read(b)
	}
	if err := c.Conn.SetReadDeadline(time.Now().Add(h.within)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.silent.Store(true)
	}
	return n, err
}

// heardSystem is one that the driver can look at: whether it is still there.
type heardSystem struct {
	heard
	syscall.Conn
}

// silentServerError says that a server takes connections, and no more. It is a net.Error, as that of a
// dial in vain is.
type silentServerError struct{ within time.Duration }

// Error implements error.
func (e *silentServerError) Error() string {
	return fmt.Sprintf("the server took the connection, and has not answered within %v", e.within)
}

// Timeout implements net.Error.
func (e *silentServerError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *silentServerError) Temporary() bool { return true }
