package gearman

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"jobd/net/principal"
)

// Config says what a server is made of.
type Config struct {
	Intake    Intake
	Queue     Queue
	Functions Functions

	// Know tells who is at the other end of a connection. It is asked once, when the first byte is there.
	Know func(conn net.Conn) (*principal.Session, error)
	// Refused hears of what somebody may not ask.
	Refused func(from *principal.Session, request, about string, why error)
	// Workers hears how many workers can do a function, whenever that changes, or whether it is Mute. Calls come one
	// after the other, and must not block.
	Workers func(function string, n int)

	MaxPacket int    // bytes
	Version   string // as the command version says it
	Logger    *slog.Logger
}

// Intake takes what clients submit. Its methods are called by the goroutines of the connections.
type Intake interface {
	// Submit takes a job, and does not wait for what becomes of it: Created or Refused of the submission is called
	// then, for those of a peer in the order in which they came. The intake drops the workload.
	Submit(s *Submission)
	// Left says that a peer is gone.
	Left(p *Peer)
	// Standing tells how a job stands.
	Standing(ctx context.Context, q Question) (Standing, error)
}

// Submission is a job that a client submits.
type Submission struct {
	From       *Peer
	Function   string
	Unique     string
	Workload   Payload
	Priority   int // 1 is high, -1 low
	Background bool
	At         int64 // seconds since 1970; 0: at once

	weight int64 // of Peer.pending
}

// Created answers the client.
func (s *Submission) Created(handle string) {
	s.From.Send(JobCreated, handle)
	s.From.pending.Release(s.weight)
}

// Refused answers the client that there is no job.
func (s *Submission) Refused(code, text string) {
	s.From.Send(Error, code, text)
	s.From.pending.Release(s.weight)
}

// Question asks for a job, by its handle or by its unique id.
type Question struct {
	From           *Peer
	Handle, Unique string
}

// Standing is how a job stands.
type Standing struct {
	Known, Running         bool
	Numerator, Denominator string // "": its worker has said nothing
	Clients                int    // that wait for it
}

// Functions are those that clients and workers name.
type Functions interface {
	// Add has a function served; one that is served already is left as it is.
	Add(name, by string) error
	// Drop has it served no more.
	Drop(ctx context.Context, name, by string) error
	// Limit bounds how many jobs of a function may be queued; 0: nothing does. It is false where there is no such
	// function.
	Limit(name string, most int) bool
}

// Queue is the jobs that are not at their end.
type Queue interface {
	// Counts tells of each function, in the order of their names.
	Counts(ctx context.Context) ([]Count, error)
	// Jobs lists jobs, so many at most.
	Jobs(ctx context.Context, most int) ([]Listed, error)
	// Cancel cancels a job. It is false where there is none.
	Cancel(ctx context.Context, handle string, p *Peer) (found bool, err error)
}

// Count is how many jobs of a function there are.
type Count struct {
	Function string
	Queued   [3]int // of high, normal and low priority
	Running  int
}

// Listed is a job in a list.
type Listed struct {
	Handle, Function, Unique string
	Background               bool
}

// mostPeers is how many connections there are at most.
const mostPeers = 20_000

// Server speaks Gearman's protocol.
type Server struct {
	Config
	memory memory

	mu        sync.Mutex
	peers     map[*Peer]struct{}
	numbers   int64
	functions map[string]*function

	telling sync.Mutex // held while Workers is told
	serving sync.WaitGroup
}

// New makes a server.
func New(c Config) *Server {
	return &Server{
		Config: c, memory: memory{semaphore.NewWeighted(middleBytes), semaphore.NewWeighted(memoryBytes)},
		peers: map[*Peer]struct{}{}, functions: map[string]*function{},
	}
}

// Serve serves those who connect until ctx ends. Then it ends their connections.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer s.serving.Wait()
	defer s.closeAll()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // as where there are no descriptors
			s.Logger.Warn("a Gearman connection can't be accepted", "error", err)
			select {
			case <-time.After(acceptRest):
			case <-ctx.Done():
			}
		default:
			s.serve(ctx, conn)
		}
	}
}

const acceptRest = 100 * time.Millisecond

// serve begins to serve a connection.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	p := &Peer{
		server: s, conn: conn, reader: bufio.NewReaderSize(conn, mostOfLine), pending: semaphore.NewWeighted(mostPending),
	}
	s.mu.Lock()
	full := len(s.peers) >= mostPeers
	if !full {
		s.numbers++
		p.number = s.numbers
		s.peers[p] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		s.Logger.Warn("a Gearman connection is closed: there are too many", "most", mostPeers)
		_ = conn.Close()
		return
	}
	p.ctx, p.leave = context.WithCancel(ctx)
	s.serving.Go(p.serve)
}

// closeAll ends all connections, when they have taken what was sent.
func (s *Server) closeAll() {
	s.mu.Lock()
	peers := make([]*Peer, 0, len(s.peers))
	for p := range s.peers {
		peers = append(peers, p)
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, p := range peers {
		closing.Go(func() {
			p.drained(partingTime)
			p.close(nil)
		})
	}
	closing.Wait()
}

// left forgets a peer.
func (s *Server) left(p *Peer) {
	s.mu.Lock()
	delete(s.peers, p)
	s.mu.Unlock()
	s.endWorker(p)
	p.leave()
	s.Intake.Left(p)
}
