package net

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
		if silence := l.Silence(); silence != 2*time.Second {
			t.Errorf("the peer owes an answer for %v, want 2s", silence)
		}
		for i, silence := range []time.Duration{time.Second, 0} {
			peer.send(`[3]`)
			synctest.Wait()
			if len(answered) != 1 || <-answered != i {
				t.Fatalf("pong %d did not answer ping %d alone", i, i)
			}
			if got := l.Silence(); got != silence {
				t.Errorf("the peer owes an answer for %v, want %v", got, silence)
			}
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
		if len(answered) != 0 {
			t.Error("a pong from before the ping answered it")
		}
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
	if want := []string{`[1,{"no":2,"error":"unknown request type: 'nope'"}]`, `[3]`, `[3]`}; !slices.Equal(got, want) {
		t.Errorf("received %q", got)
	}
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
