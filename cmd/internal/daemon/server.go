package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/socket"
	"jobd/cmd/internal/web"
	jobnet "jobd/net"
	"jobd/net/principal"
)

// Server is where a daemon listens, and the server behind it.
type Server struct {
	listeners  []net.Listener // that for TCP first, where there is one
	server     *jobnet.Server
	principals *principal.Keeper // nil: there are none
	who        web.Who
	log        *slog.Logger
}

// Listen takes the addresses, so that one that is in use ends the start; nobody is served yet. given
// are the sockets that the service manager made. peers names those who connect, for the error. Of
// config, Listen sets what c says.
func Listen(c conf.Listen, given []net.Listener, peers string, config jobnet.ServerConfig) (_ *Server, err error) {
	s := &Server{listeners: given, log: config.Logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if config.TLS, err = c.TLS.Server(config.Logger); err != nil {
		return nil, err
	}
	if c.Principals != "" {
		if config.Principals, err = principal.Open(c.Principals, config.Logger); err != nil {
			return nil, fmt.Errorf("key principals_file: %w", err)
		}
	}
	isGiven := func(l net.Listener) bool { return l.Addr().String() == c.Unix }
	if c.Unix != "" && !slices.ContainsFunc(given, isGiven) {
		listener, err := socket.Listen(c.Unix)
		if err != nil {
			return nil, fmt.Errorf("listen for %s (key listen_unix): %w", peers, err)
		}
		s.listeners = slices.Insert(s.listeners, 0, listener)
	}
	if c.Host != "" {
		listener, err := net.Listen("tcp", c.Address())
		if err != nil {
			return nil, fmt.Errorf("listen for %s (keys host and port): %w", peers, err)
		}
		s.listeners = slices.Insert(s.listeners, 0, listener)
	}
	config.Password, config.AlwaysAllowLocalhost = c.Password, c.AllowLocalhost
	config.MaxMessageSize, config.RequireTLS = c.MaxMessageSize, c.TLS.Required()
	s.server, s.principals = jobnet.NewServer(config), config.Principals
	s.who = web.Who{
		Server: s.server, Principals: c.Principals != "", Password: c.Password != "", TLS: config.TLS, RequireTLS: c.TLS.Required(),
	}
	return s, nil
}

// Address is where the server listens, with the port that the system chose if the configured one
// is 0; without one, the first socket.
func (s *Server) Address() string { return s.listeners[0].Addr().String() }

// Sockets are the paths of the unix sockets.
func (s *Server) Sockets() (paths []string) {
	for _, l := range s.listeners {
		if l.Addr().Network() == "unix" {
			paths = append(paths, l.Addr().String())
		}
	}
	return paths
}

// Refused is since when the file of principals can't be used as it stands, and why; nil: it is used, or there is none.
func (s *Server) Refused() (since time.Time, err error) { return s.principals.Refused() }

// Who is how the HTTP front knows who asks; dir is the journal's folder, "" where there is none.
func (s *Server) Who(dir string) web.Who {
	who := s.who
	who.KeyDir = dir
	return who
}

// As is the daemon itself, a master or a worker, asked by somebody. What it is asked goes the way of all requests, so
// that nobody may more here than over a link. The caller must close it, and not outlive the request with that session.
func (s *Server) As(session *principal.Session, master bool) *operator.Daemon {
	return operator.New(operator.Config{Address: s.Address(), Master: master, Logger: s.log, Patience: patience, Dial: func(context.Context) (net.Conn, error) {
		mine, served := net.Pipe()
		s.server.Attach(served, session)
		return mine, nil
	}})
}

// patience is how long somebody waits for an answer of the daemon itself.
const patience = time.Minute

// Serve serves until ctx ends. It then lets requests under way end and their answers be written,
// for some time; where that is too short, it logs why.
func (s *Server) Serve(ctx context.Context, limit time.Duration, why string) error {
	serving, ctx := errgroup.WithContext(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	if s.principals != nil {
		looking.Go(func() { s.principals.Run(ctx) })
	}
	for _, listener := range s.listeners {
		serving.Go(func() error { return s.server.Serve(ctx, listener) })
	}
	served := serving.Wait()
	answering, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := s.server.Shutdown(answering); err != nil {
		s.log.Warn(why, "error", err)
	}
	return served
}

// Close lets go of the addresses, whether Serve was called or not.
func (s *Server) Close() (err error) {
	for _, listener := range s.listeners {
		if closed := listener.Close(); !errors.Is(closed, net.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}
