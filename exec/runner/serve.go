package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Server is the runner process: it starts jobs for the worker that is connected, and keeps
// their outcomes until they are fetched, across workers.
type Server struct {
	local    *Local
	instance string
	ended    *os.File // takes the instance at the end
	home     home
	logger   *slog.Logger

	mu    sync.Mutex
	jobs  map[id]*held
	out   *outbox // to the worker that is connected; nil where none is
	timed bool    // it understands how long a job ran
	empty chan struct{}

	classes bool // it understands the classes of refusals
}

// NewServer makes a runner that has no jobs. The working folder is the journal's.
func NewServer(logger *slog.Logger) (*Server, error) {
	ended, err := openEnded()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	local, err := NewLocal()
	if err != nil {
		return nil, errors.Join(err, ended.Close())
	}
	s := &Server{
		local: local, instance: rand.Text(), ended: ended, home: findHome(), logger: logger,
		jobs: make(map[id]*held), empty: make(chan struct{}, 1),
	}
	local.flush = s.flush
	return s, nil
}

// Serve serves one worker after the other until there is neither a worker nor a
// job whose outcome is still to be fetched; then it closes the listener.
//
// Workers are served one at a time, each until the end of what it sent: a start that a killed worker
// still had on its way is known before the next one asks.
func (s *Server) Serve(listener *net.UnixListener) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	workers := make(chan *net.UnixConn)
	failed := make(chan error, 2)
	go func() { failed <- accept(ctx, listener, workers) }()
	go func() { failed <- s.local.Run() }()
	defer s.local.Close()
	defer listener.Close()
	for {
		select {
		case conn := <-workers:
			if err := s.serve(conn); err != nil {
				s.logger.Warn("worker was refused or lost", "error", err)
			}
		case <-s.empty:
		case <-time.After(reachInterval):
			if s.abandoned() {
				return nil
			}
		case err := <-failed:
			return err
		}
		if s.idle() {
			return s.noteEnd()
		}
	}
}

// acceptDelay is how long a runner that has no descriptor left waits for one.
const acceptDelay = 100 * time.Millisecond

// accept passes connections on until ctx ends.
func accept(ctx context.Context, listener *net.UnixListener, workers chan<- *net.UnixConn) error {
	for {
		conn, err := listener.AcceptUnix()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			select { // jobs that end give some back
			case <-time.After(acceptDelay):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("accept worker: %w", err)
		}
		select {
		case workers <- conn:
		case <-ctx.Done():
			conn.Close()
			return nil
		}
	}
}

// idle tells whether nothing is left to be done for anybody.
func (s *Server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs) == 0 && s.out == nil
}

// serve serves one worker until it is gone.
func (s *Server) serve(conn *net.UnixConn) error {
	defer conn.Close()
	if err := checkPeer(conn); err != nil {
		return err
	}
	out, err := newOutbox(conn)
	if err != nil {
		return err
	}
	w := newWire(conn)
	hello, err := w.next()
	if err != nil {
		return fmt.Errorf("receive hello: %w", err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		out.write()
	}()
	defer func() {
		out.close()
		<-written
	}()
	s.connect(out, hello)
	defer s.connect(nil, message{})
	if err := checkHello(hello); err != nil {
		return err
	}
	return s.receive(w)
}

// connect makes the worker's outbox the one that gets news, beginning with what it
// missed, as far as the worker's hello says that it understands it.
func (s *Server) connect(out *outbox, theirs message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out, s.timed = out, theirs.Instance == understandsElapsed
	s.classes = slices.Contains(theirs.Jobs, understands(understandsClasses))
	if out == nil {
		return
	}
	hello := message{Kind: kindHello, Version: protocolVersion, Instance: s.instance}
	for id, job := range s.jobs {
		job.told = true
		hello.Jobs = append(hello.Jobs, process{id, job.process.started})
	}
	out.send(hello)
	for _, job := range s.jobs {
		if job.done {
			out.send(job.news())
		}
	}
	out.flush()
}

// flush writes the news to the worker.
func (s *Server) flush() {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	if out != nil {
		out.flush()
	}
}

// receive does what the worker asks until it is gone.
func (s *Server) receive(w *wire) error {
	r := requests{server: s}
	for {
		batch, err := w.receive()
		for i := range batch {
			if taken := r.take(&batch[i]); taken != nil {
				err = taken
				break
			}
		}
		r.run()
		s.flush()
		if hungUp(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
}

// hungUp tells whether the other side is gone, be it in the middle of a message.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
}
