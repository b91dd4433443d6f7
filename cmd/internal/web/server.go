package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"jobd/cmd/internal/conf"
)

// What bounds those who connect.
const (
	headTimeout   = 5 * time.Second  // for the head of a request
	answerTimeout = 15 * time.Second // for the request and its answer together
	idleTimeout   = 2 * time.Minute  // until a connection without requests is closed
	mostHead      = 8 << 10          // bytes of a head
	mostLinks     = 32               // connections; more are closed as they come
	stopTimeout   = time.Second      // for the answers under way at the end
)

// socketMode lets the service's group read what is told.
const socketMode = 0o660

// Server is the address and the server behind it.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Listen takes the address, so that one that is in use ends the start; nobody is served yet.
func Listen(c conf.HTTP, handler http.Handler, log *slog.Logger) (*Server, error) {
	listener, err := listen(c)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP (key http_listen): %w", err)
	}
	return &Server{bound(listener, mostLinks), &http.Server{
		Handler: handler, ReadHeaderTimeout: headTimeout, ReadTimeout: headTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: mostHead, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// listen takes the address. A socket that a former run has left, and that nobody answers, is
// replaced.
func listen(c conf.HTTP) (net.Listener, error) {
	listener, err := net.Listen(c.Network, c.Address)
	if c.Network != "unix" {
		return listener, err
	}
	if errors.Is(err, syscall.EADDRINUSE) && isLeft(c.Address) {
		if err := os.Remove(c.Address); err != nil {
			return nil, err
		}
		listener, err = net.Listen(c.Network, c.Address)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(c.Address, socketMode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// isLeft tells whether a path is that of a socket that nobody listens on any more.
func isLeft(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Address is where the server listens, with the port that the system chose if the configured one
// is 0.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve serves until ctx ends, and gives the answers under way a moment then.
func (s *Server) Serve(ctx context.Context) error {
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
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
