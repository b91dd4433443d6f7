package net

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

// scripted gives a running link and the peer at its other end.
func scripted(t *testing.T, config LinkConfig) (*Link, *wire) {
	t.Helper()
	ours, theirs := net.Pipe()
	l := NewLink(ours, config)
	run(t, l)
	return l, pipeEnd(t, theirs)
}

// request sends a request in the background and gives its result later.
func request(l *Link, typ string, data any) <-chan string {
	result := make(chan string, 1)
	go func() {
		answer, err := l.Request(context.Background(), typ, data)
		result <- fmt.Sprintf("%s %v", answer, err)
	}()
	return result
}

// sentRequest is a request as the peer sees it.
type sentRequest struct {
	No       int64
	Type     string
	Data     json.RawMessage
	Password *string
}

func (w *wire) receiveRequest() (sent sentRequest) {
	w.t.Helper()
	parts := []any{new(int), &sent}
	must.Do(w.t, json.Unmarshal([]byte(w.receive()), &parts))
	return sent
}

func TestRequestMatchesAnswers(t *testing.T) {
	t.Parallel()
	l, peer := scripted(t, LinkConfig{})
	first := request(l, "a", nil)
	a := peer.receiveRequest()
	second := request(l, "b", map[string]any{"x": 1})
	b := peer.receiveRequest()
	if a.No < 1 || a.No > lastNumber || b.No == a.No || a.Data != nil || string(b.Data) != `{"x":1}` || a.Password != nil {
		t.Errorf("sent %+v and %+v", a, b)
	}
	peer.send(fmt.Sprintf(`[1,{"no":%d,"data":[2]}]`, b.No), `[1,{"no":0,"error":"what?"}]`, fmt.Sprintf(`[1,{"no":%d,"error":"no"}]`, a.No))
	if got := <-second; got != "[2] <nil>" {
		t.Errorf("second: %s", got)
	}
	if got := <-first; got != " no" {
		t.Errorf("first: %s", got)
	}
}

// The password goes with the first request, and with all that follow before anything was answered:
// it is not known in what order they leave.
func TestPasswordIsSentUntilAnswered(t *testing.T) {
	t.Parallel()
	l, peer := scripted(t, LinkConfig{Password: "s3cret"})
	for i, want := range []string{"s3cret", "s3cret", "<none>"} {
		result := request(l, "a", nil)
		sent := peer.receiveRequest()
		password := "<none>"
		if sent.Password != nil {
			password = *sent.Password
		}
		if password != want {
			t.Errorf("request %d has the password %s, want %s", i, password, want)
		}
		answer := `"error":"no"`
		if i > 0 {
			answer = `"data":"ok"`
		}
		peer.send(fmt.Sprintf(`[1,{"no":%d,%s}]`, sent.No, answer))
		<-result
	}
}

func TestRequestNumbersWrap(t *testing.T) {
	t.Parallel()
	l, _ := scripted(t, LinkConfig{})
	l.number = lastNumber - 1
	l.calls = map[int64]chan message{1: nil} // still waits for its answer
	for _, want := range []int64{lastNumber, 2, 3} {
		if got := l.call(nil).No; got != want {
			t.Errorf("number %d, want %d", got, want)
		}
	}
}

func TestRequestEnds(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context
		data any
		then func(*Link, *wire)
		want error
		text string
	}{
		{"with its context", cancelled, nil, func(*Link, *wire) {}, context.Canceled, ""},
		{"with the link, closed here", context.Background(), nil, func(l *Link, _ *wire) { _ = l.Close() }, ErrLinkClosed, ""},
		{"with the link, closed there", context.Background(), nil, func(_ *Link, w *wire) { _ = w.Close() }, ErrLinkClosed, "peer closed the link"},
		{"with the peer's complaint", context.Background(), nil, func(_ *Link, w *wire) { w.send(`[1,{"no":0,"error":"message too long"}]`); _ = w.Close() }, ErrLinkClosed, "saying: message too long"},
		{"for lack of JSON", context.Background(), make(chan int), func(*Link, *wire) {}, nil, "request a: json: unsupported type"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l, peer := scripted(t, LinkConfig{})
			result := make(chan error, 1)
			go func() { _, err := l.Request(test.ctx, "a", test.data); result <- err }()
			if test.ctx.Err() == nil && test.data == nil {
				peer.receive()
			}
			test.then(l, peer)
			err := <-result
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %v, want %v %s", err, test.want, test.text)
			}
		})
	}
}

func TestRequestOnAClosedLink(t *testing.T) {
	t.Parallel()
	l, _ := scripted(t, LinkConfig{})
	_ = l.Close()
	if _, err := l.Request(within(t), "a", nil); !errors.Is(err, ErrLinkClosed) {
		t.Errorf("request: %v", err)
	}
	if err := l.Ping(within(t)); !errors.Is(err, ErrLinkClosed) {
		t.Errorf("ping: %v", err)
	}
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	port := must.Get(freeport.Take())(t)
	address := freeport.Address(port)
	if _, err := Connect(within(t), address, LinkConfig{}); err == nil || !strings.Contains(err.Error(), "no connection to "+address+": connection refused") {
		t.Errorf("connect: %v", err)
	}
}

// A server asks its clients, as the master does with its workers, many at once in both directions.
func TestBothEndsAsk(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"relay": func(ctx context.Context, l *Link, request Request) (any, error) {
			request.Proceed()
			return l.Request(ctx, "echo", request.Data)
		},
	}})
	l := link(t, address, LinkConfig{Handlers: map[string]Handler{"echo": echo}})
	ctx := within(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			data, err := l.Request(ctx, "relay", i)
			if err != nil || string(data) != fmt.Sprint(i) {
				t.Errorf("relay %d: %s, %v", i, data, err)
			}
		})
	}
	all.Wait()
}

// The peer that we chose needs no password, even when we have one.
func TestDialledLinkServesItsPeer(t *testing.T) {
	t.Parallel()
	_, peer := scripted(t, LinkConfig{Password: "s3cret", Handlers: map[string]Handler{"poll": constant("ok", nil)}})
	peer.send(`[0,{"no":5,"type":"poll"}]`)
	peer.expect(`[1,{"no":5,"data":"ok"}]`)
}

func TestLinkShutdownAnswersFirst(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	l, peer := scripted(t, LinkConfig{Handlers: map[string]Handler{
		"slow": func(context.Context, *Link, Request) (any, error) { close(begun); <-release; return "ok", nil },
	}})
	peer.send(`[0,{"no":5,"type":"slow"}]`)
	<-begun
	l.stopping.Store(true)
	stopped := make(chan error, 1)
	go func() { stopped <- l.Shutdown(context.Background()) }()
	peer.send(`[0,{"no":6,"type":"slow"}]`)
	peer.expect(`[1,{"no":6,"error":"shutting down"}]`)
	close(release)
	peer.expect(`[1,{"no":5,"data":"ok"}]`)
	peer.expectEnd()
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer int // pings
		want   time.Duration
	}{
		{"a peer that answers nothing", 0, 4 * time.Second},
		{"a peer that falls silent", 10, 14 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, peer := scripted(t, LinkConfig{})
				go func() {
					for n := 0; ; n++ {
						if frame, err := peer.reader.ReadString(endOfFrame); err != nil || frame != "[2]\x04" {
							return
						}
						if n < test.answer {
							peer.send(`[3]`)
						}
					}
				}()
				begun := time.Now()
				err := l.KeepAlive(t.Context(), time.Second)
				if !errors.Is(err, ErrLinkClosed) || !strings.Contains(err.Error(), "silent") {
					t.Errorf("keep alive: %v", err)
				}
				if waited := time.Since(begun); waited != test.want {
					t.Errorf("given up after %v, want %v", waited, test.want)
				}
				<-l.Done()
			})
		})
	}
}

// An answer that came before the link ended is an answer, however quickly the end followed.
func TestLastAnswerCounts(t *testing.T) {
	t.Parallel()
	for range 100 {
		l, peer := scripted(t, LinkConfig{})
		result := request(l, "a", nil)
		peer.send(fmt.Sprintf(`[1,{"no":%d,"data":1}]`, peer.receiveRequest().No))
		_ = peer.Close()
		if got := <-result; got != "1 <nil>" {
			t.Fatalf("answer %s", got)
		}
	}
}
