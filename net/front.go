package net

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net"
	"time"

	"jobd/net/principal"
)

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
		Address: remoteOf(conn).String(), Names: namesOf(conn), UID: peerUID(conn), Local: isLocal(conn),
		TLS: may && s.over.Load() != nil,
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
