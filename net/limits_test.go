package net

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Pitfall 34: what a peer may send is bounded, and it is told so.
func TestPitfall34MessageSize(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{
		Handlers: map[string]Handler{"echo": echo}, Password: "s3cret", MaxMessageSize: 2 << 20,
	})
	request := func(size int, password string) string {
		return fmt.Sprintf(`[0,{"no":1,"type":"echo","data":"%s"%s}]`, strings.Repeat("x", size), password)
	}
	const proof = `,"password":"s3cret"`
	tests := []struct {
		name string
		send []string
		want string // the beginning of the last answer
	}{
		{"below 64 KiB without the password", []string{request(60<<10, proof)}, `[1,{"no":1,"data":"xxx`},
		{"above it", []string{request(70<<10, proof)}, `[1,{"no":0,"error":"message too long: at most 65536 bytes are allowed"}]`},
		{"above it in the packet that proves it", []string{request(1, proof), request(70<<10, "")}, `[1,{"no":1,"data":"xxx`},
		{"the limit itself", []string{request(1, proof), request(2<<20-100, "")}, `[1,{"no":1,"data":"xxx`},
		{"above the limit", []string{request(1, proof), request(2<<20, "")}, `[1,{"no":0,"error":"message too long: at most 2097152 bytes are allowed"}]`},
		{"without end", []string{request(1, proof), strings.Repeat("x", 100<<20)}, `[1,{"no":0,"error":"message too long: at most 2097152 bytes are allowed"}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for _, frame := range test.send { // a peer that is dismissed can't send it all
					_, _ = io.WriteString(peer.Conn, frame+"\x04")
				}
			}()
			var answer string
			for range test.send {
				answer = peer.receive()
			}
			if !strings.HasPrefix(answer, test.want) { // the answers before it came first
				t.Errorf("answer %.100s, want %s", answer, test.want)
			}
			if strings.Contains(test.want, "error") {
				peer.expectEnd()
			}
			_ = peer.Close()
			<-sent
		})
	}
}

// accepted runs a server's link over a pipe, so that a bubble's clock is all the time there is.
func accepted(t *testing.T, config ServerConfig) *wire {
	t.Helper()
	return acceptedBy(t, NewServer(config))
}

// acceptedBy is one more link of a server, which ends with the test.
func acceptedBy(t *testing.T, server *Server) *wire {
	t.Helper()
	ours, theirs := net.Pipe()
	server.accept(theirs)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx)
	})
	return pipeEnd(t, ours)
}

// A peer without the password can't keep the server busy: pings and such are answered up to a limit.
func TestPitfall34WorkBeforeThePassword(t *testing.T) {
	t.Parallel()
	config := ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"ask": constant("ok", nil)}}
	address, _ := serve(t, config)
	pings := slices.Repeat([]string{"[2]"}, unprovenBytes/4)
	for name, test := range map[string]struct{ last, want string }{
		"the password comes":   {`[0,{"no":1,"type":"ask","password":"s3cret"}]`, `[1,{"no":1,"data":"ok"}]`},
		"one more is too much": {"[2]", `[1,{"no":0,"error":"no password came within 4096 bytes"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			peer.send(pings...)
			peer.send(test.last)
			got := peer.receive()
			for got == "[3]" {
				got = peer.receive()
			}
			check.Equal(t, got, test.want, "received")
		})
	}
}

func TestPitfall34Deadlines(t *testing.T) {
	t.Parallel()
	const ping = "[2]\x04"
	tests := []struct {
		name   string
		config ServerConfig
		send   string
		after  time.Duration
		want   string
	}{
		{"a frame begun", ServerConfig{}, "[2", 30 * time.Second, `[1,{"no":0,"error":"message not complete within 30s"}]`},
		{"the second frame begun", ServerConfig{}, ping + "[", 30 * time.Second, `[1,{"no":0,"error":"message not complete within 30s"}]`},
		{"no password", ServerConfig{Password: "s3cret", passwordTimeout: time.Minute}, "", time.Minute, `[1,{"no":0,"error":"no password came in time"}]`},
		{"pings are no password", ServerConfig{Password: "s3cret"}, ping + ping, 30 * time.Second, `[1,{"no":0,"error":"no password came in time"}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				peer := accepted(t, test.config)
				begun := time.Now()
				go func() { _, _ = io.WriteString(peer.Conn, test.send) }()
				for range strings.Count(test.send, ping) {
					peer.expect(`[3]`)
				}
				peer.expect(test.want)
				check.Equal(t, time.Since(begun), test.after, "told after")
				peer.expectEnd()
			})
		})
	}
}

func TestIdleLinkLivesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		peer := accepted(t, ServerConfig{Handlers: map[string]Handler{"echo": echo}, Password: "s3cret"})
		go peer.send(`[0,{"no":1,"type":"echo","password":"s3cret"}]`)
		peer.expect(`[1,{"no":1,"data":null}]`)
		time.Sleep(24 * time.Hour) // the bubble's clock
		go peer.send(`[2]`)
		peer.expect(`[3]`)
	})
}

// Pitfall 34: peers that give no password can't fill the house; the newest is let in.
func TestPitfall34UnprovenLinksAreBounded(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{
		Handlers: map[string]Handler{"echo": echo}, Password: "s3cret", maxUnauthenticated: 3,
	})
	proven := dial(t, address)
	proven.send(`[0,{"no":1,"type":"echo","password":"s3cret"}]`)
	proven.expect(`[1,{"no":1,"data":null}]`)
	var idle []*wire
	for range 5 {
		peer := dial(t, address)
		peer.send(`[2]`)
		peer.expect(`[3]`)
		idle = append(idle, peer)
	}
	idle[0].expectEnd()
	idle[1].expectEnd()
	for _, peer := range append(idle[2:], proven) {
		peer.send(`[2]`)
		peer.expect(`[3]`)
	}
}

// Pitfall 34: idle connections cost little. (Not parallel: it measures the heap.)
func TestPitfall34IdleLinksAreSmall(t *testing.T) {
	const links = 2000
	address, _ := serve(t, ServerConfig{})
	before := heapInUse()
	for range links {
		conn := must.Get(net.Dial("tcp", address))(t)
		defer conn.Close()
	}
	last := dial(t, address)
	last.send(`[2]`)
	last.expect(`[3]`)
	if each := (heapInUse() - before) / links; each > 16<<10 {
		t.Errorf("an idle link, both its ends, takes %d bytes", each)
	}
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse)
}

// Pitfall 36: a peer that takes nothing is dropped, and what waits for it is bounded meanwhile.
func TestPitfall36SlowPeerIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var answered atomic.Int64
		peer := accepted(t, ServerConfig{
			MaxMessageSize: 1000,
			maxRequests:    10,
			Handlers: map[string]Handler{"large": func(context.Context, *Link, Request) (any, error) {
				answered.Add(1)
				return strings.Repeat("x", 900), nil
			}},
		})
		begun := time.Now()
		for no := range 1000 {
			if _, err := fmt.Fprintf(peer, `[0,{"no":%d,"type":"large"}]`+"\x04", no); err != nil {
				break
			}
		}
		if n := answered.Load(); n > 15 {
			t.Errorf("%d answers were made for a peer that fetches none", n)
		}
		check.Equal(t, time.Since(begun), 30*time.Second, "dropped after")
	})
}

// A slow peer that does fetch gets a long answer, though it is longer than all limits.
func TestPitfall36LongAnswerGetsThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		peer := accepted(t, ServerConfig{
			MaxMessageSize: 1000,
			Handlers:       map[string]Handler{"large": constant(strings.Repeat("x", size), nil)},
		})
		_ = peer.SetDeadline(time.Time{})
		go peer.send(`[0,{"no":1,"type":"large"}]`)
		total, piece := 0, make([]byte, pieceBytes)
		for total < size {
			n, err := io.ReadFull(peer, piece)
			total += n
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || n == 0 {
				t.Fatalf("after %d bytes: %v", total, err)
			}
			if total > size {
				break
			}
			time.Sleep(20 * time.Second) // the bubble's clock: slow, but alive
		}
	})
}

// Requests under way are bounded: beyond the bound the link is not read.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var running atomic.Int64
		peer := accepted(t, ServerConfig{maxRequests: 5, Handlers: map[string]Handler{
			"wait": func(_ context.Context, _ *Link, request Request) (any, error) {
				request.Proceed()
				running.Add(1)
				<-release
				return "ok", nil
			},
		}})
		go func() {
			for no := range 20 {
				peer.send(fmt.Sprintf(`[0,{"no":%d,"type":"wait"}]`, no))
			}
		}()
		synctest.Wait()
		check.Equal(t, running.Load(), 5, "requests run at once")
		close(release)
		for range 20 {
			peer.receive()
		}
	})
}

// failingListener fails as a process without free descriptors does, then accepts one connection.
type failingListener struct {
	net.Listener
	failures int
	conn     chan net.Conn
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if conn, ok := <-l.conn; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (l *failingListener) Close() error   { return nil }
func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestServeOutlivesFailuresToAccept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		listener := &failingListener{failures: 100, conn: make(chan net.Conn, 1)}
		listener.conn <- theirs
		server := NewServer(ServerConfig{})
		served := make(chan error, 1)
		go func() { served <- server.Serve(t.Context(), listener) }()
		peer := pipeEnd(t, ours)
		_ = peer.SetDeadline(time.Now().Add(time.Hour))
		go peer.send(`[2]`)
		peer.expect(`[3]`)
		close(listener.conn)
		check.ErrorIs(t, <-served, net.ErrClosed, "serve")
		check.Do(t, server.Shutdown(context.Background()), "shutdown")
	})
}

// Regression: a peer that broke a rule was dismissed before it had the answers to what it asked in
// the same packet.
func TestDismissalComesAfterTheAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		peer := accepted(t, ServerConfig{MaxMessageSize: 100, Handlers: map[string]Handler{
			"slow": func(context.Context, *Link, Request) (any, error) {
				time.Sleep(time.Second) // the bubble's clock
				return "ok", nil
			},
		}})
		go peer.send(`[0,{"no":1,"type":"slow"}]`, strings.Repeat("x", 101))
		peer.expect(`[1,{"no":1,"data":"ok"}]`, `[1,{"no":0,"error":"message too long: at most 100 bytes are allowed"}]`)
		peer.expectEnd()
	})
}

// A worker's answer about many jobs is long, and was asked for; what nobody asked for stays
// bounded.
func TestAnAnswerMayBeLongerThanAMessage(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"long": constant(strings.Repeat("x", 3<<20), nil),
	}})
	l := link(t, address, LinkConfig{MaxMessageSize: 1 << 20})
	data, err := l.Request(within(t), "long", nil)
	if err != nil || len(data) != 3<<20+2 {
		t.Errorf("an answer of %d bytes, error %v", len(data), err)
	}
	peer, conn := net.Pipe()
	unasked := NewLink(conn, LinkConfig{MaxMessageSize: 1 << 20})
	ran := make(chan error, 1)
	go func() { ran <- unasked.Run(context.Background()) }()
	go func() {
		_, _ = peer.Write([]byte("[1,{\"no\":1,\"data\":\"" + strings.Repeat("x", 3<<20)))
	}()
	reason := make([]byte, 1<<10)
	n, err := peer.Read(reason)
	if err != nil || !strings.Contains(string(reason[:n]), "message too long: at most 1048576 bytes are allowed") {
		t.Errorf("told %q, error %v", reason[:n], err)
	}
	peer.Close()
	<-ran
}

// An answer that a master does not take is an error of that request: the link stays, and other requests
// are answered. Sent as it is, it would end the link.
func TestAnAnswerThatIsTooLongForAMasterIsAnError(t *testing.T) {
	t.Parallel()
	long := json.RawMessage(`"` + strings.Repeat("x", serverAnswerLimit) + `"`)
	_, master := scripted(t, LinkConfig{PeerIsMaster: true, Handlers: map[string]Handler{
		"long": constant(long, nil), "parts": constant(Joined{[]byte(`{"a":`), long, []byte("}")}, nil), "short": constant(1, nil),
	}})
	for no, typ := range []string{"long", "parts"} {
		master.send(fmt.Sprintf(`[0,{"no":%d,"type":%q}]`, no+1, typ))
		check.Contains(t, master.receive(), "the answer is too long for a master: 671088", "%s", typ)
	}
	master.send(`[0,{"no":3,"type":"short"}]`)
	master.expect(`[1,{"no":3,"data":1}]`)
}
