package gearman

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"jobd/net/principal"
)

// instant takes all jobs, and has them wait for a worker that is sent them at once.
type instant struct {
	server *Server
	mu     sync.Mutex
	n      int
	under  map[*instantRun]bool
	open   sync.WaitGroup // those of under
}

type instantRun struct {
	of      *instant
	job     Job
	payload Payload
}

func (q *instant) Submit(s *Submission) {
	q.mu.Lock()
	q.n++
	r := &instantRun{of: q, payload: Payload{Bytes: slices.Clone(s.Workload.Bytes)}}
	s.Workload.Drop()
	r.job = Job{Function: s.Function, Handle: "H:x:" + strconv.Itoa(q.n), Run: r}
	q.under[r] = true
	q.open.Add(1)
	q.mu.Unlock()
	s.Created(r.job.Handle)
	q.server.Offer(&r.job)
}

func (r *instantRun) Taken(string) { r.of.server.Assign(&r.job, "u", r.payload) }
func (r *instantRun) Heard(kind Kind, _ []string, _ Payload) {
	if kind == WorkComplete || kind == WorkFail || kind == WorkException {
		r.end()
	}
}
func (r *instantRun) Lost(error, bool) { r.end() }

func (r *instantRun) end() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if !r.of.under[r] {
		panic("a job has ended twice")
	}
	delete(r.of.under, r)
	r.of.open.Done()
}

func (*instant) Left(*Peer) {}

func (q *instant) Standing(context.Context, Question) (Standing, error) {
	return Standing{Known: true}, nil
}

func (*instant) Counts(context.Context) ([]Count, error) { return []Count{{Function: "f"}}, nil }

func (*instant) Jobs(context.Context, int) ([]Listed, error) {
	return []Listed{{Handle: "H:x:1", Function: "f"}}, nil
}

func (*instant) Cancel(_ context.Context, handle string, _ *Peer) (bool, error) {
	return handle != "", nil
}

func (*instant) Add(string, string) error { return nil }

func (*instant) Drop(context.Context, string, string) error { return nil }

func (*instant) Limit(string, int) bool { return true }

// Whatever a peer sends, what it is answered is packets and lines, and nothing of it stays when it is gone.
func FuzzServer(f *testing.F) {
	submit := packet("REQ", SubmitJob, "f", "u", "w")
	able := append(packet("REQ", CanDo, "f"), packet("REQ", PreSleep)...)
	f.Add(submit)
	f.Add(slices.Concat(able, submit, packet("REQ", GrabJobUniq), packet("REQ", WorkData, "H:x:1", "d"), packet("REQ", WorkComplete, "H:x:1", "r")))
	f.Add(slices.Concat(able, packet("REQ", SubmitJobEpoch, "f", "", "17", "w"), packet("REQ", GrabJob)))
	f.Add(slices.Concat(packet("REQ", CanDoTimeout, "f", "1"), submit, packet("REQ", GrabJobAll), packet("REQ", ResetAbilities)[:8]))
	f.Add(slices.Concat(packet("REQ", EchoReq, "x"), packet("RES", Noop), packet("REQ", OptionReq, "exceptions")))
	f.Add([]byte("status\nworkers\r\nshow jobs\nshow unique jobs\ncancel job H:x:1\ncreate function f\ndrop function f\nmaxqueue f 1\nversion\n"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := &instant{under: map[*instantRun]bool{}}
		s := New(Config{
			Intake: q, Functions: q, Queue: q, Workers: func(string, int) {}, MaxPacket: most, Logger: slog.New(slog.DiscardHandler),
			Refused: func(*principal.Session, string, string, error) {},
			Know:    func(net.Conn) (*principal.Session, error) { return principal.Known("", "", ""), nil },
		})
		q.server = s
		s.memory = oneMemory()
		conn, theirs := net.Pipe()
		s.serve(t.Context(), theirs)
		answers := make(chan []byte, 1)
		go func() {
			said, _ := io.ReadAll(conn)
			answers <- said
		}()
		_, _ = conn.Write(raw)
		var last *Peer
		s.mu.Lock()
		for last = range s.peers {
		}
		s.mu.Unlock()
		if last != nil {
			last.drained(partingTime)
		}
		_ = conn.Close()
		s.serving.Wait()
		mustBeAnswers(t, <-answers)
		if len(s.peers) > 0 {
			t.Error("the peer is there still")
		}
		for name, f := range s.functions {
			if len(f.workers)+len(f.sleeping) > 0 {
				t.Errorf("%q has workers", name)
			}
			for _, j := range f.waiting {
				j.Run.Lost(nil, false)
			}
		}
		q.open.Wait() // a job whose time is over ends on its own
		if !s.memory.long.TryAcquire(most) {
			t.Error("memory is held")
		}
	})
}

// mustBeAnswers takes what was said apart: packets that are responses, lines, and perhaps the beginning of one.
func mustBeAnswers(t *testing.T, said []byte) {
	for r := bufio.NewReader(bytes.NewReader(said)); ; {
		b, err := r.Peek(1)
		if err != nil {
			return
		}
		if b[0] != 0 {
			if _, err := r.ReadString('\n'); err != nil && len(said) < 1<<10 {
				return
			}
			continue
		}
		h, err := readHead(r, most)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return
		}
		if err != nil || h.asks {
			t.Fatalf("%v: %q was said", err, said[:min(len(said), 300)])
		}
		if _, err := readBody(r, h.size, anyStep); err != nil {
			return
		}
	}
}
