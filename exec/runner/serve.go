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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Server is the runner process: it starts jobs for the worker that is connected, and keeps
// their outcomes until they are fetched, across workers.
type Server struct {
	local    *Local
	instance string
	ended    *os.File // takes the instance at the end
	logger   *slog.Logger

	mu    sync.Mutex
	jobs  map[id]*held
	out   *outbox // to the worker that is connected; nil where none is
	empty chan struct{}

	starting chan struct{}  // holds one for each start under way
	starts   sync.WaitGroup // the same
}

// held is a job that was started and whose outcome was not fetched yet.
type held struct {
	process jobexec.Process // nil until it is started
	done    *journal.Done   // once it has ended
}

// NewServer makes a runner that has no jobs. The working folder is the journal's.
func NewServer(logger *slog.Logger) (*Server, error) {
	local, err := NewLocal()
	if err != nil {
		return nil, err
	}
	ended, err := openEnded()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", errors.Join(err, local.Close()))
	}
	return &Server{
		local: local, instance: rand.Text(), ended: ended, logger: logger,
		jobs: make(map[id]*held), empty: make(chan struct{}, 1),
		starting: make(chan struct{}, maxStarts),
	}, nil
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
	failed := make(chan error, 1)
	go func() { failed <- accept(ctx, listener, workers) }()
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

// reachInterval is how often a runner without a worker looks whether one can still come.
const reachInterval = 30 * time.Second

// abandoned tells whether nothing runs, and the outcomes can't be fetched any more
// because the socket was removed with its folder.
func (s *Server) abandoned() bool {
	if _, err := os.Stat(socketFile); err == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range s.jobs {
		if job.done == nil {
			return false
		}
	}
	return true
}

// accept passes connections on until ctx ends.
func accept(ctx context.Context, listener *net.UnixListener, workers chan<- *net.UnixConn) error {
	for {
		conn, err := listener.AcceptUnix()
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
	w := newWire(conn)
	hello, err := w.receive()
	if err != nil {
		return fmt.Errorf("receive hello: %w", err)
	}
	out := newOutbox()
	written := make(chan struct{})
	go func() {
		defer close(written)
		out.write(w, conn)
	}()
	defer func() {
		out.close()
		<-written
	}()
	s.connect(out)
	defer s.connect(nil)
	if err := checkHello(hello); err != nil {
		return err
	}
	// Nobody is listened to before all that this worker asked for is there, or is not.
	defer s.starts.Wait()
	return s.receive(w)
}

// connect makes the worker's outbox the one that gets news, beginning with what it
// missed.
func (s *Server) connect(out *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = out
	if out == nil {
		return
	}
	hello := message{Kind: kindHello, Version: protocolVersion, Instance: s.instance}
	for id, job := range s.jobs {
		p := process{ID: id}
		if job.process != nil {
			p.Started = job.process.Started()
		}
		hello.Jobs = append(hello.Jobs, p)
	}
	out.send(hello)
	for id, job := range s.jobs {
		if job.done != nil {
			out.send(ended(id, *job.done))
		}
	}
}

// receive does what the worker asks until it is gone.
func (s *Server) receive(w *wire) error {
	var env []string
	for {
		m, err := w.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		switch m.Kind {
		case kindEnvironment:
			env = m.Env
		case kindStart:
			s.begin(m, env)
		case kindSignal:
			s.signal(m)
		case kindFetch:
			s.fetch(m.ID)
		case kindForget:
			s.forget(m.ID)
		default:
			return fmt.Errorf("unknown message of kind %d", m.Kind)
		}
	}
}

// maxStarts is how many starts may be under way at once: they contend for the process's
// fork lock, so more would only wait (pitfall 31).
const maxStarts = 4

// begin makes a job known, before the worker's next message is read, and starts it.
func (s *Server) begin(m message, env []string) {
	job := &held{}
	if !s.hold(m.ID, job) {
		s.tell(message{Kind: kindRefused, ID: m.ID, Text: "it was started already"})
		return
	}
	s.starting <- struct{}{}
	s.starts.Go(func() {
		s.start(m, env, job)
		<-s.starting
	})
}

// start starts a job.
func (s *Server) start(m message, env []string, job *held) {
	p, err := s.local.Start(jobexec.Spec{Job: m.ID.Job, Argv: m.Argv, Dir: m.Dir, Env: env, MaxOutput: m.MaxOutput})
	if err != nil {
		s.forget(m.ID)
		s.tell(message{Kind: kindRefused, ID: m.ID, Text: err.Error()})
		return
	}
	s.mu.Lock()
	job.process = p
	s.mu.Unlock()
	s.tell(message{Kind: kindStarted, ID: m.ID, Started: p.Started()})
	go s.await(m.ID, job, p)
}

// hold makes a job known, unless it is.
func (s *Server) hold(id id, job *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.jobs[id]; known {
		return false
	}
	s.jobs[id] = job
	return true
}

// await keeps the job's outcome and tells it.
func (s *Server) await(id id, job *held, p jobexec.Process) {
	<-p.Ended()
	done, _ := p.Outcome()
	s.mu.Lock()
	defer s.mu.Unlock()
	job.done = &done
	if s.out != nil {
		s.out.send(ended(id, done))
	}
}

// signal signals a job's process group.
func (s *Server) signal(m message) {
	s.mu.Lock()
	job := s.jobs[m.ID]
	s.mu.Unlock()
	err := os.ErrProcessDone
	if job != nil && job.process != nil {
		err = job.process.Signal(m.Signo)
	}
	answer := message{Kind: kindSignalled, ID: m.ID}
	if err != nil {
		answer.Text = err.Error()
	}
	s.tell(answer)
}

// fetch sends the output that did not come with the news of the end.
func (s *Server) fetch(id id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil && job.done != nil && s.out != nil {
		s.out.send(output(id, *job.done))
	}
}

// forget drops a job whose outcome is journalled.
func (s *Server) forget(id id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
	if len(s.jobs) == 0 {
		select {
		case s.empty <- struct{}{}:
		default:
		}
	}
}

// tell sends a message to the worker, if one is connected.
func (s *Server) tell(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil {
		s.out.send(m)
	}
}

// checkPeer refuses processes of other users; the folder and the socket's mode do
// too.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	if peerErr != nil {
		return fmt.Errorf("check peer: %w", peerErr)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("refused: the peer, process %d, is of user %d", peer.Pid, peer.Uid)
	}
	return nil
}
