package gearman

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"jobd/net/principal"
)

// silent takes submissions and answers none.
type silent struct {
	Intake
	submitted []*Submission
}

func (s *silent) Submit(job *Submission) { s.submitted = append(s.submitted, job) }

func (*silent) Left(*Peer) {}

type anyFunction struct{ Functions }

func (anyFunction) Add(string, string) error { return nil }

// most is what peers in these tests have together.
const most = 512 << 10

// oneMemory is one for packets of all lengths.
func oneMemory() memory {
	one := semaphore.NewWeighted(most)
	return memory{one, one}
}

// connected makes a server, and a connection to it, in a bubble of synctest.
func connected(t *testing.T) (*Server, *silent, net.Conn) {
	intake := &silent{}
	s := New(Config{
		Intake: intake, Functions: anyFunction{}, MaxPacket: most, Logger: slog.New(slog.DiscardHandler),
		Know: func(net.Conn) (*principal.Session, error) { return principal.Known("", "", ""), nil },
	})
	s.memory = oneMemory()
	conn, theirs := net.Pipe()
	s.serve(t.Context(), theirs)
	t.Cleanup(func() {
		_ = conn.Close()
		s.serving.Wait()
	})
	return s, intake, conn
}

// heldFor is how long it takes until nobody has any of the memory.
func heldFor(t *testing.T, s *Server) time.Duration {
	synctest.Wait()
	began := time.Now()
	if err := s.memory.long.Acquire(context.Background(), most); err != nil {
		t.Fatal(err)
	}
	s.memory.long.Release(most)
	return time.Since(began)
}

// What a peer announces takes none of the memory of all before its beginning has come, and one that stops has what
// it takes for seconds.
func TestMemoryOfPeersThatStop(t *testing.T) {
	t.Parallel()
	whole := packet("REQ", EchoReq, strings.Repeat("x", 300<<10))
	for _, c := range []struct {
		name string
		sent int
		held time.Duration
	}{
		{"behind the head", headLength, 0},
		{"behind a little", shortBytes / 2, 0},
		{"behind the beginning", headLength + shortBytes, readStep},
		{"before the end", len(whole) - 1, readStep},
		{"when it is to read", len(whole), writeStep},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _, conn := connected(t)
				if _, err := conn.Write(whole[:c.sent]); err != nil {
					t.Fatal(err)
				}
				if got := heldFor(t, s); got != c.held {
					t.Errorf("the memory is held for %s, not %s", got, c.held)
				}
			})
		})
	}
}

// A peer that reads slowly, but does, gets a long answer whole.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := connected(t)
		whole := packet("REQ", EchoReq, strings.Repeat("x", 400<<10))
		if _, err := conn.Write(whole); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{stepBytes, len(whole) - stepBytes} {
			time.Sleep(writeStep - time.Second)
			if _, err := io.ReadFull(conn, whole[:n]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What a peer does not take counts for nothing up to mostUntook, and then in the memory of all.
func TestUntakenAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := connected(t)
		var p *Peer
		for p = range s.peers {
		}
		short, n := strings.Repeat("x", shortBytes), 0
		for ; !p.closed; n++ {
			p.Send(EchoRes, short)
		}
		if kept := n * shortBytes; kept < mostUntook+most/2 || kept > mostUntook+most+2*shortBytes {
			t.Errorf("%d bytes were kept for a peer", kept)
		}
		if got := heldFor(t, s); got != 0 {
			t.Errorf("a peer that was closed has the memory for %s", got)
		}
	})
}

// A packet of middle length does not wait for long ones whose peers have stopped.
func TestMiddlePacketsDoNotWaitForLongOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, conn := connected(t)
		s.MaxPacket = 2 * middle
		s.memory = memory{semaphore.NewWeighted(middle), semaphore.NewWeighted(2 * middle)}
		long := packet("REQ", EchoReq, strings.Repeat("x", middle+1))
		if _, err := conn.Write(long[:shortBytes+headLength]); err != nil { // it stops
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		other, theirs := net.Pipe()
		defer other.Close()
		s.serve(t.Context(), theirs)
		for range 3 {
			whole := packet("REQ", EchoReq, strings.Repeat("x", middle))
			if _, err := other.Write(whole); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(other, whole); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("they waited %s", took)
		}
	})
}

// Submissions that are refused at once are answered in their turn.
func TestAnswersComeInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, intake, conn := connected(t)
		unasked := [][]byte{
			packet("REQ", SubmitJobBg, "f", strings.Repeat("u", mostOfUnique+1), ""), packet("REQ", SubmitJobBg, "", "", ""),
			packet("REQ", SubmitJobBg, "f"), packet("REQ", AllYours), packet("REQ", OptionReq, "exceptions"), []byte("version\n"),
		}
		for _, raw := range unasked {
			if _, err := conn.Write(append(packet("REQ", SubmitJobBg, "f", "", ""), raw...)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			intake.submitted[len(intake.submitted)-1].Created("H:x:1")
			h, err := readHead(conn, most)
			if err != nil || h.kind != JobCreated {
				t.Errorf("%q: the first answer is %d: %v", raw, h.kind, err)
			}
			body := make([]byte, h.size)
			if _, err := io.ReadFull(conn, body); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Nothing more is read from a peer whose unanswered submissions are many bytes.
func TestUnansweredBytesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, intake, conn := connected(t)
		go io.Copy(io.Discard, conn)
		go func() {
			for {
				if _, err := conn.Write(packet("REQ", SubmitJobBg, "f", "", strings.Repeat("x", 63<<10))); err != nil {
					return
				}
			}
		}()
		for want := 1024 / 64; want < 20; want++ {
			if synctest.Wait(); len(intake.submitted) != want {
				t.Fatalf("%d submissions were taken, not %d", len(intake.submitted), want)
			}
			intake.submitted[0].Refused("QUEUE_ERROR", "")
		}
	})
}
