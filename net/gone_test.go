package net

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

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
			if got := strings.Count(string(answers), text); got != want {
				t.Errorf("round %d: %s came %d times, want %d", round, text, got, want)
			}
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
