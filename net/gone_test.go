package net

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// halfClose says the peer's last.
func (w *wire) halfClose() {
	w.t.Helper()
	must.Do(w.t, w.Conn.(*net.TCPConn).CloseWrite())
}

// holder hands a connection over to another process, which can be killed.
func holder(t *testing.T, peer *wire) *exec.Cmd {
	t.Helper()
	file := must.Get(peer.Conn.(*net.TCPConn).File())(t)
	process := exec.Command("sleep", "600")
	process.ExtraFiles = append(process.ExtraFiles, file)
	must.Do(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	_, _ = file.Close(), peer.Conn.Close()
	return process
}

// Regression: a client that closes its half after its requests, as nc -N does, lost most of the
// answers.
func TestHalfClosedPeerGetsAllAnswers(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
	const many = 100
	for round := range 20 {
		peer := dial(t, address)
		frames := []string{`[0,{"no":1,"type":"echo","password":"s3cret"}]`}
		for no := range many {
			frames = append(frames, `[2]`, fmt.Sprintf(`[0,{"no":%d,"type":"echo","data":%d}]`, no+2, no), `[9]`)
		}
		peer.send(frames...)
		peer.halfClose()
		answers, err := io.ReadAll(peer)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for text, want := range map[string]int{"[3]\x04": many, `"data":`: many + 1, "unexpected type": many} {
			check.Equal(t, strings.Count(string(answers), text), want, "round %d: %s came … times", round, text)
		}
	}
}

// Regression: what took longer than two seconds, to make or to read, was cut off.
func TestHalfClosedPeerMayBeSlow(t *testing.T) {
	t.Parallel()
	const size = 12 << 20
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"slow": func(ctx context.Context, _ *Link, _ Request) (any, error) {
			select {
			case <-time.After(lingering + lingering/4):
				return strings.Repeat("x", size), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
		"large": constant(strings.Repeat("x", size), nil),
	}})
	for typ, readAfter := range map[string]time.Duration{"slow": 0, "large": lingering + lingering/4} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			peer.send(`[0,{"no":1,"type":"` + typ + `"}]`)
			peer.halfClose()
			<-time.After(readAfter)
			answer, err := io.ReadAll(peer)
			if err != nil || !strings.HasSuffix(string(answer), "\"}]\x04") || len(answer) < size {
				t.Errorf("%d bytes, error %v", len(answer), err)
			}
			if spaces := len(answer) - len(strings.TrimLeft(string(answer), " ")); spaces > 2 {
				t.Errorf("%d spaces before the answer", spaces)
			}
		})
	}
}

// A client whose process was killed is not taken for one that reads on.
func TestKilledClientIsNoticed(t *testing.T) {
	t.Parallel()
	for name, halfClosed := range map[string]bool{"as it was": false, "half closed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, ended := make(chan struct{}), make(chan error, 1)
			address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
				"hang": func(ctx context.Context, _ *Link, _ Request) (any, error) {
					close(begun)
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return nil, ctx.Err()
				},
			}})
			peer := dial(t, address)
			peer.send(`[0,{"no":1,"type":"hang"}]`)
			<-begun
			if halfClosed {
				peer.halfClose()
			}
			process := holder(t, peer)
			select {
			case cause := <-ended:
				t.Fatalf("taken for gone while it lived: %v", cause)
			default:
			}
			_ = process.Process.Kill()
			select {
			case cause := <-ended:
				if !errors.Is(cause, errGone) && !errors.Is(cause, ErrLinkClosed) {
					t.Errorf("cause %v", cause)
				}
			case <-time.After(patience):
				t.Error("its end was not noticed")
			}
		})
	}
}

// A worker whose master ends has lost its link at once, whatever it does for it: it registers anew.
// The first to know may not be who waits for the answer.
func TestEndOfAPeerThatWasAskedIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	const tries = 10 // on a busy machine one of them may take long
	var took time.Duration
	for range tries {
		if took = noticed(t); took <= lingering*3/4 {
			return
		}
	}
	t.Errorf("each of %d ends took long to be noticed, the last %v", tries, took)
}

// noticed is how long it takes until the end of a peer is noticed.
func noticed(t *testing.T) time.Duration {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	begun := make(chan struct{})
	worker := link(t, listener.Addr().String(), LinkConfig{Handlers: map[string]Handler{
		"run-manual": func(ctx context.Context, _ *Link, _ Request) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	conn := must.Get(listener.Accept())(t)
	master := &wire{Conn: conn, t: t, reader: bufio.NewReader(conn)}
	go func() { _, _ = worker.Request(context.Background(), "register-worker", nil) }()
	master.receive() // all of it: what is unread at the end would be told by a reset
	master.send(`[0,{"no":1,"type":"run-manual"}]`)
	<-begun
	process, killed := holder(t, master), time.Now()
	_ = process.Process.Kill()
	<-worker.Done()
	return time.Since(killed)
}

// A pong answers the oldest ping. Taken for the answer to a later one, it would prove that the
// peer has read what it has not.
func TestPongAnswersTheOldestPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, peer := scripted(t, LinkConfig{})
		answered := make(chan int, 2)
		for i := range 2 {
			go func() {
				if err := l.Ping(t.Context()); err == nil {
					answered <- i
				}
			}()
			peer.expect(`[2]`)
			time.Sleep(time.Second) // the bubble's clock
		}
		check.Equal(t, l.Silence(), 2*time.Second, "the peer owes an answer for")
		for i, silence := range []time.Duration{time.Second, 0} {
			peer.send(`[3]`)
			synctest.Wait()
			if len(answered) != 1 || <-answered != i {
				t.Fatalf("pong %d did not answer ping %d alone", i, i)
			}
			check.Equal(t, l.Silence(), silence, "the peer owes an answer for")
		}
		peer.send(`[3]`, `[3]`) // nobody asked: they must not count for the next ping
		synctest.Wait()
		go func() {
			if l.Ping(t.Context()) == nil {
				answered <- 2
			}
		}()
		peer.expect(`[2]`)
		synctest.Wait()
		check.Equal(t, len(answered), 0, "a pong from before the ping answered it")
	})
}

// A peer answers a ping when it has read what came before it, also where that is still being worked
// on.
func TestPongProvesThatTheRequestWasRead(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"slow": func(context.Context, *Link, Request) (any, error) { close(begun); <-release; return "ok", nil },
	}})
	peer := dial(t, address)
	peer.send(`[0,{"no":1,"type":"slow"}]`, `[2]`, `[0,{"no":2,"type":"nope"}]`, `[2]`)
	got := []string{peer.receive(), peer.receive(), peer.receive()} // pongs come in any place
	slices.Sort(got)
	check.Elements(t, got, []string{`[1,{"no":2,"error":"unknown request type: 'nope'"}]`, `[3]`, `[3]`}, "received")
	<-begun
	close(release)
	peer.expect(`[1,{"no":1,"data":"ok"}]`)
}

// A request that was not wholly handed to the connection when the link ended is told apart from one
// that the peer may have got.
func TestRequestTellsWhetherItWasSent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		read   func(peer *wire) // what the peer takes before the end
		unsent bool
	}{
		{"nothing left", func(*wire) {}, true},
		{"half of the frame left", func(w *wire) { _, _ = w.Read(make([]byte, 10)) }, true},
		{"all of the frame left", func(w *wire) { w.receive() }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, peer := scripted(t, LinkConfig{})
				result := make(chan error, 1)
				go func() { _, err := l.Request(context.Background(), "a", nil); result <- err }()
				synctest.Wait()
				test.read(peer)
				synctest.Wait()
				_ = l.Close()
				if err := <-result; errors.Is(err, ErrUnsent) != test.unsent || !errors.Is(err, ErrLinkClosed) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
	t.Run("the link had ended", func(t *testing.T) {
		t.Parallel()
		l, _ := scripted(t, LinkConfig{})
		l.Abandon(errors.New("enough"))
		if _, err := l.Request(within(t), "a", nil); !errors.Is(err, ErrUnsent) || err.Error() != "request a: not sent: link closed: enough" {
			t.Errorf("error %v", err)
		}
	})
}

// lateConn takes what is written to it when it is closed, and not before.
type lateConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *lateConn) Write(b []byte) (int, error) { <-c.closed; return len(b), nil }

func (c *lateConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// While a link is closed its connection may still take a frame: then it was sent.
func TestRequestThatLeavesAtTheLastMomentIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l := NewLink(&lateConn{Conn: ours, closed: make(chan struct{})}, LinkConfig{})
		run(t, l)
		result := request(l, "a", nil)
		synctest.Wait()
		_ = l.Close()
		if got := <-result; strings.Contains(got, ErrUnsent.Error()) || !strings.Contains(got, ErrLinkClosed.Error()) {
			t.Errorf("the request ended with %s", got)
		}
	})
}

// Regression: a peer that had said all that it had to say, and closed its half, kept its link, and what it had
// asked for went on, after its credential was removed.
func TestARevokedPeerThatSaysNoMore(t *testing.T) {
	t.Parallel()
	token, credential, err := principal.NewToken("ann")
	must.Do(t, err)
	path := filepath.Join(t.TempDir(), "principals")
	must.Do(t, os.WriteFile(path, []byte("ann run * "+credential+"\n"), 0o600))
	keeper := must.Get(principal.Open(path, slog.New(slog.DiscardHandler)))(t)
	ctx, stop := context.WithCancel(t.Context())
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		keeper.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-looked
	})
	ended := make(chan struct{})
	address, _ := serve(t, ServerConfig{Principals: keeper, Handlers: map[string]Handler{
		"long": func(ctx context.Context, _ *Link, request Request) (any, error) {
			defer close(ended)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	conn := must.Get(net.Dial("tcp", address))(t)
	defer conn.Close()
	must.Get(fmt.Fprintf(conn, `[0,{"no":1,"type":"long","password":%q}]`+"\x04", token))(t)
	must.Do(t, conn.(*net.TCPConn).CloseWrite())
	must.Get(conn.Read(make([]byte, 1)))(t) // a blank, since the server has read the end
	must.Do(t, os.WriteFile(path, []byte("# nobody\n"), 0o600))
	select {
	case <-ended:
	case <-within(t).Done():
		t.Error("what it asked for goes on")
	}
}
