package net

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// A link may be TLS. A server tells by the first byte, which JSON can't begin with: so plain clients
// and those with TLS come to the same port.

const (
	firstOfTLS       = 0x16             // the first byte of each TLS connection
	handshakeTimeout = 10 * time.Second // from that byte on
)

// errHandshake ends a link whose handshake failed.
var errHandshake = errors.New("TLS handshake failed")

// PlainRefused is what a plain peer is told where TLS is required.
const PlainRefused = "TLS is required here: call with tls = verify (jobctl) or master_tls = verify (a worker)"

// secured is a connection that is TLS, or may be: of one that was accepted the first byte tells.
type secured struct {
	*carrier
	config *tls.Config              // of the server, until the first byte is here
	over   atomic.Pointer[tls.Conn] // nil: plain, or not known yet
	plain  bool                     // it is known to be plain
	must   bool                     // it must not be
}

// maySecure is a connection that a server has accepted.
func maySecure(conn net.Conn, config *tls.Config, must bool) *secured {
	return &secured{carrier: &carrier{Conn: conn}, config: config, must: must}
}

// Secure makes TLS of a connection that was just made, for NewLink; a unix socket, or one without a
// configuration, stays as it is. Where it fails, the connection is closed.
func Secure(ctx context.Context, conn net.Conn, with func() (*tls.Config, error)) (net.Conn, error) {
	if with == nil || peerUID(conn) >= 0 {
		return conn, nil
	}
	config, err := with()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := &secured{carrier: &carrier{Conn: conn}}
	over := tls.Client(s.carrier, config)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it may be closed already
		return nil, handshakeError(err)
	}
	s.over.Store(over)
	return s, nil
}

// handshakeError is a handshake's error without more of a peer's certificate than a log may hold.
func handshakeError(err error) error { return fmt.Errorf("%w: %s", errHandshake, Excerpt(err.Error())) }

// Read implements net.Conn. The first one waits for the first byte, and for the handshake behind it.
func (s *secured) Read(p []byte) (int, error) {
	over := s.over.Load()
	switch {
	case over != nil:
		return over.Read(p)
	case s.plain || len(p) == 0:
		return s.carrier.Read(p)
	}
	if n, err := s.carrier.Read(p[:1]); n == 0 {
		return 0, err
	}
	if p[0] != firstOfTLS {
		s.plain = true
		return 1, nil
	}
	s.first = []byte{p[0]}
	over = tls.Server(s.carrier, s.config)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if err := over.HandshakeContext(ctx); err != nil {
		return 0, handshakeError(err)
	}
	s.over.Store(over)
	return over.Read(p)
}

// Write implements net.Conn.
func (s *secured) Write(p []byte) (int, error) {
	if over := s.over.Load(); over != nil {
		return over.Write(p)
	}
	return s.carrier.Write(p)
}

// CloseWrite says that nothing more is said.
func (s *secured) CloseWrite() error {
	if over := s.over.Load(); over != nil {
		return over.CloseWrite()
	}
	if tcp, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close implements net.Conn. The peer is told the end, if it takes that at once.
func (s *secured) Close() error {
	if over := s.over.Load(); over != nil {
		s.closing.Store(true)
		// What TLS writes by itself, as answers to new keys, may wait for a peer that reads nothing, and
		// holds what Close needs.
		_ = s.SetWriteDeadline(time.Time{})
		return over.Close()
	}
	return s.carrier.Close()
}

// refused tells whether the peer is one without TLS where that is required.
func (s *secured) refused() bool { return s.must && s.plain }

// carrier is the connection under TLS.
type carrier struct {
	net.Conn
	first   []byte // read already, and still to be read by TLS
	closing atomic.Bool
}

// Read implements net.Conn.
func (c *carrier) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// partingTime is how long the end of TLS may take to leave. Links are closed under locks: a peer that
// takes nothing must not hold them.
const partingTime = 10 * time.Millisecond

// SetWriteDeadline implements net.Conn. TLS gives its last word five seconds by itself.
func (c *carrier) SetWriteDeadline(t time.Time) error {
	if c.closing.Load() {
		t = time.Now().Add(partingTime)
	}
	return c.Conn.SetWriteDeadline(t)
}

// namesOf are the DNS names of a peer's certificate, which was verified; nil where it has shown none.
func namesOf(conn net.Conn) []string {
	s, may := conn.(*secured)
	if !may || s.over.Load() == nil {
		return nil
	}
	state := s.over.Load().ConnectionState()
	if len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates[0].DNSNames
}

// carrierOf is the connection that carries another one, or that one itself.
func carrierOf(conn net.Conn) net.Conn {
	if s, over := conn.(*secured); over {
		return s.Conn
	}
	return conn
}
