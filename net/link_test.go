package net

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store/storetest/check"
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
	check.Equal(t, <-second, "[2] <nil>", "second")
	check.Equal(t, <-first, " no", "first")
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
		check.Equal(t, password, want, "request %d has the password", i)
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
		check.Equal(t, l.call(nil).No, want, "number")
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
	check.ErrorIs(t, l.Ping(within(t)), ErrLinkClosed, "ping")
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
	check.Do(t, <-stopped, "shutdown")
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
				check.Equal(t, time.Since(begun), test.want, "given up after")
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
		must.Equal(t, <-result, "1 <nil>", "answer")
	}
}

// What a handler has for its answer is in memory until the answer is encoded.
func TestOnAnsweredComesBehindTheAnswer(t *testing.T) {
	t.Parallel()
	made := make(chan string, 2)
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"a": func(_ context.Context, _ *Link, request Request) (any, error) {
			request.OnAnswered(func() { made <- "answered" })
			request.Proceed()
			return told{made}, nil
		},
	}})
	peer := dial(t, address)
	peer.send(`[0,{"no":1,"type":"a"}]`)
	peer.expect(`[1,{"no":1,"data":1}]`)
	if first, then := <-made, <-made; first != "encoded" || then != "answered" {
		t.Errorf("%s, then %s", first, then)
	}
	Request{}.OnAnswered(nil) // of no link
}

// told tells when it is made JSON.
type told struct{ made chan<- string }

func (d told) MarshalJSON() ([]byte, error) {
	d.made <- "encoded"
	return json.Marshal(1)
}

// A web page must not be able to send a worker on its reader's machine a request in the body of one
// of HTTP.
func TestNothingOfHTTPIsRun(t *testing.T) {
	t.Parallel()
	ran := make(chan string, 100)
	address, _ := serve(t, ServerConfig{Password: "s3cret", AlwaysAllowLocalhost: true, Handlers: map[string]Handler{
		"pause": func(_ context.Context, _ *Link, request Request) (any, error) { ran <- request.Type; return "ok", nil },
	}})
	const body = "\x04[0,{\"no\":1,\"type\":\"pause\"}]\x04"
	for _, method := range []string{
		"GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", // and what a page may make up only where the answer to OPTIONS allows it
	} {
		t.Run(method, func(t *testing.T) {
			request := must.Get(http.NewRequestWithContext(within(t), method, "http://"+address+"/", strings.NewReader(body)))(t)
			request.Header.Set("X-Frame", strings.TrimSpace(body[1:len(body)-1]))
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			if response, err := transport.RoundTrip(request); err == nil {
				defer response.Body.Close()
				answer, _ := io.ReadAll(response.Body)
				t.Errorf("answered %s", answer)
			}
		})
	}
	select {
	case typ := <-ran:
		t.Errorf("%s was run", typ)
	default:
	}
}

func TestOtherProtocolsAreClosedAtOnce(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{"ok": constant("ok", nil)}})
	const frame = "\x04[0,{\"no\":1,\"type\":\"ok\"}]\x04"
	for name, sent := range map[string]string{
		"TLS": "\x16\x03\x01", "SSH": "SSH-2.0-x\r\n", "binary": "\x00\xff\xfe\x01", "HTTP, not all of it": "GET / HT",
		"blank lines first": "\r\n\r\nGET / HTTP/1.1\r\n" + frame, "an empty frame first": "\x04GET /" + frame, "nothing": "\x00" + frame,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			_, _ = io.WriteString(peer, sent)
			rest, err := io.ReadAll(peer) // a reset is an end, too
			if len(rest) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("received %q, error %v", rest, err)
			}
		})
	}
}

// What begins as JSON may have line breaks, and may be broken.
func TestOurProtocolIsRecognised(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{"echo": echo}})
	for _, sent := range []string{
		"", " \n", "[0,{no:1}]", "nonsense", "-", "\"a / HTTP/1.1", "[\n\n", "[0\n,\r\n", "true\n", "[1, HTTP/x\n", "[ / /1.1\n",
	} {
		t.Run(fmt.Sprintf("%q", sent), func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			peer.send(sent, "[\n0,\n{\"no\":1,\"type\":\"echo\",\"data\":\"GET / HTTP/1.1\"}\n]")
			for range 2 { // the first may have been answered with a complaint
				if answer := peer.receive(); !strings.Contains(answer, `"no":0`) {
					check.Equal(t, answer, `[1,{"no":1,"data":"GET / HTTP/1.1"}]`, "answer")
					return
				}
			}
			t.Error("no answer")
		})
	}
}
