package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/socket"
	jobnet "jobd/net"
)

// What bounds those who connect.
const (
	headTimeout   = 5 * time.Second  // for the head of a request
	answerTimeout = 15 * time.Second // for the request and its answer together
	pageTimeout   = 90 * time.Second // for the answer of a page: acts may wait for locks of others
	idleTimeout   = 2 * time.Minute  // until a connection without requests is closed
	mostHead      = 32 << 10         // bytes of a head: browsers show the cookies of all servers of a host
	mostLinks     = 128              // connections; more are held by nobody, see bound. A browser holds 6
	mostStreams   = 256              // beside them
	stopTimeout   = time.Second      // for the answers under way at the end
)

// Server is the address and the server behind it. A nil Server is one that is to tell nobody.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen takes the address, if there is one, so that one that is in use ends the start; nobody is
// served yet.
func Listen(c conf.HTTP, routes Routes, who Who, log *slog.Logger) (*Server, error) {
	if !c.On() {
		return nil, nil
	}
	listener, err := listen(c)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP (key http_listen): %w", err)
	}
	if who.TLS != nil {
		listener = jobnet.Offer(listener, tlsFor(c, who.TLS))
	}
	log.Info("metrics are served", "address", listener.Addr().String())
	server := &http.Server{
		Handler: newFront(c, routes, who, log), ReadHeaderTimeout: headTimeout, ReadTimeout: headTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: mostHead, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	(&bound{most: mostLinks, mostStreams: mostStreams}).watch(server)
	return &Server{listener, server}, nil
}

// tlsFor is the daemon's TLS for browsers: they are asked for a certificate only where that is of use.
func tlsFor(c conf.HTTP, daemon *tls.Config) *tls.Config {
	if c.AsksForCertificates() {
		return daemon
	}
	mine := daemon.Clone()
	mine.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := daemon.GetConfigForClient(hello)
		if err == nil {
			config = config.Clone()
			config.ClientAuth = tls.NoClientCert
		}
		return config, err
	}
	return mine
}

// listen takes the address.
func listen(c conf.HTTP) (net.Listener, error) {
	if c.Network == "unix" {
		return socket.Listen(c.Address)
	}
	return net.Listen(c.Network, c.Address)
}

// Address is where it listens; "" where it tells nobody.
func (s *Server) Address() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Serve serves until ctx ends, and gives the answers under way a moment then.
func (s *Server) Serve(ctx context.Context) error {
	if s == nil {
		<-ctx.Done()
		return nil
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.server.Shutdown(ending) != nil {
		_ = s.server.Close() // they have asked for what nobody needs any more
	}
	<-served
	return nil
}

// Close lets go of the address, whether Serve was called or not.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
