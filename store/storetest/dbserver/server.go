package dbserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"jobd/store/storetest/freeport"
)

// startTimeout is how long a server may take until it answers.
const startTimeout = 3 * time.Minute

// Options says how to run a server. The zero value is right for tests.
type Options struct {
	// Durable leaves the server its own defaults for flushing to disk, as
	// benchmarks need them. Otherwise a commit survives the server's death but not the machine's.
	Durable bool
	// Args are further arguments, as in "--max-allowed-packet=1M".
	Args []string
	// Clock has the server go by a clock that can be set, see SetClock. Only MariaDB can do that.
	Clock bool
}

// Server is one running database server. Its methods are not safe for concurrent use.
type Server struct {
	program program
	dir     string // as the server sees it
	port    int
	args    []string
	env     []string // nil: this process's
	process *process
	admin   *sql.DB
}

// Start makes a new data folder and starts a server on it. It returns when the server answers.
func Start(ctx context.Context, options Options) (*Server, error) {
	found, err := findProgram()
	if err != nil {
		return nil, fmt.Errorf("start database server: %w", err)
	}
	s := &Server{program: found}
	if err := s.prepare(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start database server: %w", err), s.Close())
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare makes the data folder and settles what the server is started with.
func (s *Server) prepare(ctx context.Context, options Options) error {
	sweep(s.program.outside(s.program.tempDir()))
	dir, err := s.program.makeDir()
	if err != nil {
		return err
	}
	s.dir = dir
	if err := s.program.initialize(ctx, filepath.Join(dir, "data")); err != nil {
		return err
	}
	if s.port, err = freeport.Take(); err != nil {
		return err
	}
	if options.Clock {
		if err := s.prepareClock(); err != nil {
			return err
		}
	}
	s.args = append(s.program.arguments(dir, s.port, options.Durable), options.Args...)
	s.admin, err = s.Open("")
	return err
}

// Restart starts the server again on the same data, socket and port, after a Stop or a Kill.
func (s *Server) Restart(ctx context.Context) error {
	log := s.program.outside(filepath.Join(s.dir, "server.log"))
	started, err := s.program.run(s.args, s.env, log)
	if err != nil {
		return fmt.Errorf("start database server: %w", err)
	}
	s.process = started
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.awaitAnswer(ctx); err != nil {
		return fmt.Errorf("start database server: %w; its log ends in:\n%s", err, tail(log))
	}
	return nil
}

// awaitAnswer asks until the server answers: nothing else tells that it is ready.
func (s *Server) awaitAnswer(ctx context.Context) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.admin.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-s.process.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("no answer in time: %w", err)
		}
	}
}

// Addr is the server's address, 127.0.0.1 and its port.
func (s *Server) Addr() string { return freeport.Address(s.port) }

// Port is the server's TCP port.
func (s *Server) Port() int { return s.port }

// Socket is the path of the server's unix socket.
func (s *Server) Socket() string { return s.program.outside(filepath.Join(s.dir, "s")) }

// IsMariaDB tells MariaDB from MySQL.
func (s *Server) IsMariaDB() bool { return s.program.root == "" }

// Admin is a connection pool of the server's administrator, in no database. Close ends it.
func (s *Server) Admin() *sql.DB { return s.admin }

// Stop ends the server in order and waits until it is gone.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would, with SIGKILL, and waits until it is gone.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	err := s.process.end(signal)
	if s.env != nil {
		forgetClock(s.process.command.Process.Pid)
	}
	s.process = nil
	return err
}

// Close ends the server and removes its data.
func (s *Server) Close() error {
	if s.admin != nil {
		_ = s.admin.Close() // fails where a connection's server is gone already
	}
	err := s.Kill()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.program.outside(s.dir)))
	}
	return err
}

// tail is the end of a log, enough to see why a server did not start.
func tail(path string) string {
	const most = 2000
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-most):])
}
