package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"jobd/cmd/internal/conf"
	jobnet "jobd/net"
	"jobd/net/principal"
)

// Server is a daemon's address and the server behind it.
type Server struct {
	listener   net.Listener
	server     *jobnet.Server
	principals *principal.Keeper // nil: there are none
	log        *slog.Logger
}

// Listen takes the address, so that one that is in use ends the start; nobody is served yet. peers
// names those who connect, for the error. Of config, Listen sets what c says.
func Listen(c conf.Listen, peers string, config jobnet.ServerConfig) (*Server, error) {
	var err error
	if config.TLS, err = c.TLS.Server(config.Logger); err != nil {
		return nil, err
	}
	if c.Principals != "" {
		if config.Principals, err = principal.Open(c.Principals, config.Logger); err != nil {
			return nil, fmt.Errorf("key principals_file: %w", err)
		}
	}
	listener, err := net.Listen("tcp", c.Address())
	if err != nil {
		return nil, fmt.Errorf("listen for %s (keys host and port): %w", peers, err)
	}
	config.Password, config.AlwaysAllowLocalhost = c.Password, c.AllowLocalhost
	config.MaxMessageSize, config.RequireTLS = c.MaxMessageSize, c.TLS.Required()
	return &Server{listener, jobnet.NewServer(config), config.Principals, config.Logger}, nil
}

// Address is where the server listens, with the port that the system chose if the configured one
// is 0.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve serves until ctx ends. It then lets requests under way end and their answers be written,
// for some time; where that is too short, it logs why.
func (s *Server) Serve(ctx context.Context, patience time.Duration, why string) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	if s.principals != nil {
		looking.Go(func() { _ = s.principals.Run(ctx) })
	}
	served := s.server.Serve(ctx, s.listener)
	answering, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.server.Shutdown(answering); err != nil {
		s.log.Warn(why, "error", err)
	}
	return served
}

// Close lets go of the address, whether Serve was called or not.
func (s *Server) Close() error {
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
