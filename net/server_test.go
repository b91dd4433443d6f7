package net

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

func TestServerAnswers(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"echo":    echo,
		"ok":      constant("ok", nil),
		"refuse":  constant(nil, fmt.Errorf("poll: %w", Refusal("invalid target 'x'"))),
		"broken":  constant(nil, errors.New("dial tcp 10.0.0.1:3306: refused")),
		"panics":  func(context.Context, *Link, Request) (any, error) { panic("nil map") },
		"no-json": constant(make(chan int), nil),
	}})
	const toNobody = `[1,{"no":0,"error":"`
	tests := []struct{ name, send, want string }{ // want "": no answer
		{"not JSON", `[0,{no:1}]`, ""},
		{"empty frame", ``, ""},
		{"white space", " \n", ""},
		{"JSON and more", `[2] [2]`, ""},
		{"object", `{"no":1}`, toNobody + `JSON array expected, got: [object Object]"}]`},
		{"number", `12`, toNobody + `JSON array expected, got: 12"}]`},
		{"large number", `1e21`, toNobody + `JSON array expected, got: 1e21"}]`},
		{"number beyond all", `-1e999`, toNobody + `JSON array expected, got: -1e999"}]`},
		{"small number", `0.0000001`, toNobody + `JSON array expected, got: 0.0000001"}]`},
		{"minus zero", `-0.0`, toNobody + `JSON array expected, got: -0.0"}]`},
		{"string", ` "h\"i" `, toNobody + `JSON array expected, got: h\"i"}]`},
		{"null", `null`, toNobody + `JSON array expected, got: null"}]`},
		{"true", `true`, toNobody + `JSON array expected, got: true"}]`},
		{"empty array", `[]`, toNobody + `unexpected type undefined"}]`},
		{"unknown message type", `[9]`, toNobody + `unexpected type 9"}]`},
		{"message type of another kind", `["0",{"no":1,"type":"ok"}]`, toNobody + `unexpected type 0"}]`},
		{"fractional message type", `[0.5]`, toNobody + `unexpected type 0.5"}]`},
		{"message type null", `[null]`, toNobody + `unexpected type null"}]`},
		{"message type object", `[{}]`, toNobody + `unexpected type [object Object]"}]`},
		{"message type nested array", `[[1,[2,null,"x"],{}]]`, toNobody + `unexpected type [1,[2,null,\"x\"],{}]"}]`},
		{"request without body", `[0]`, toNobody + `malformed REQUEST message: data is not an object"}]`},
		{"request body null", `[0,null]`, toNobody + `malformed REQUEST message: data is not an object"}]`},
		{"request body text", `[0,"ok"]`, toNobody + `malformed REQUEST message: data is not an object"}]`},
		{"nothing in it: type is missed first", `[0,{}]`, toNobody + `malformed REQUEST message: missing required field type"}]`},
		{"names are matched exactly", `[0,{"no":1,"Type":"ok"}]`, toNobody + `malformed REQUEST message: missing required field type"}]`},
		{"no missing", `[0,{"type":"ok"}]`, toNobody + `malformed REQUEST message: missing required field no"}]`},
		{"type not a string", `[0,{"no":1,"type":5}]`, toNobody + `malformed REQUEST message: 'type' must be string"}]`},
		{"no a string", `[0,{"no":"3","type":"ok"}]`, toNobody + `malformed REQUEST message: 'no' must be integer"}]`},
		{"no a fraction", `[0,{"no":1.5,"type":"ok"}]`, toNobody + `malformed REQUEST message: 'no' must be integer"}]`},
		{"no null", `[0,{"no":null,"type":"ok"}]`, toNobody + `malformed REQUEST message: 'no' must be integer"}]`},
		{"no too large to be exact", `[0,{"no":9007199254740993,"type":"ok"}]`, toNobody + `malformed REQUEST message: 'no' must be integer"}]`},
		{"password a number", `[0,{"no":1,"type":"ok","password":5}]`, toNobody + `malformed REQUEST message: 'password' must be string"}]`},
		{"data a boolean", `[0,{"no":1,"type":"ok","data":false}]`, toNobody + `malformed REQUEST message: 'data' must be any of: string, number, object, array"}]`},
		{"response without body", `[1]`, toNobody + `malformed RESPONSE message: data is not an object"}]`},
		{"response without no", `[1,{"data":1}]`, toNobody + `malformed RESPONSE message: missing required field no"}]`},
		{"response with a wrong error", `[1,{"no":1,"error":1}]`, toNobody + `malformed RESPONSE message: 'error' must be string"}]`},
		{"unexpected response", `[1,{"no":77,"data":"ok"}]`, ""},
		{"unexpected error", `[1,{"no":0,"error":"what?"}]`, ""},
		{"unexpected pong", `[3]`, ""},
		{"ping", `[2]`, `[3]`},
		{"ping with more", `[2.0,{"a":1},7]`, `[3]`},
		{"request", `[0,{"no":4,"type":"ok"}]`, `[1,{"no":4,"data":"ok"}]`},
		{"request with more", `[0,{"no":4,"type":"ok","x":1},"y"]`, `[1,{"no":4,"data":"ok"}]`},
		{"number as 4.0", `[0,{"no":4.0,"type":"ok"}]`, `[1,{"no":4,"data":"ok"}]`},
		{"number as 40e-1", `[0,{"no":40e-1,"type":"ok"}]`, `[1,{"no":4,"data":"ok"}]`},
		{"number zero", `[0,{"no":0,"type":"refuse"}]`, `[1,{"no":0,"error":"invalid target 'x'"}]`},
		{"number negative", `[0,{"no":-7,"type":"ok"}]`, `[1,{"no":-7,"data":"ok"}]`},
		{"the last of two equal fields counts", `[0,{"no":4,"type":"nope","type":"ok"}]`, `[1,{"no":4,"data":"ok"}]`},
		{"data null", `[0,{"no":4,"type":"echo","data":null}]`, `[1,{"no":4,"data":null}]`},
		{"data comes back", `[0,{"no":4,"type":"echo","data":{"b":[1, "<&>\u2028\ud83d\ude00"]}}]`, `[1,{"no":4,"data":{"b":[1,"<&>\u2028\ud83d\ude00"]}}]`},
		{"refusal", `[0,{"no":4,"type":"refuse"}]`, `[1,{"no":4,"error":"invalid target 'x'"}]`},
		{"inner error is not told", `[0,{"no":4,"type":"broken"}]`, `[1,{"no":4,"error":"internal error"}]`},
		{"panic is survived", `[0,{"no":4,"type":"panics"}]`, `[1,{"no":4,"error":"internal error"}]`},
		{"answer without JSON form", `[0,{"no":4,"type":"no-json"}]`, `[1,{"no":4,"error":"internal error"}]`},
		{"unknown request type", `[0,{"no":5,"type":"nope"}]`, `[1,{"no":5,"error":"unknown request type: 'nope'"}]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			peer.send(test.send)
			if test.want != "" {
				peer.expect(test.want)
			}
			peer.send(`[2]`) // alive, and nothing else was answered
			peer.expect(`[3]`)
		})
	}
}

func TestServerPassword(t *testing.T) {
	t.Parallel()
	const request, wrong = `[0,{"no":4,"type":"ok"}]`, `[0,{"no":4,"type":"ok","password":"nope"}]`
	const right, ok, invalid = `[0,{"no":4,"type":"ok","password":"s3cret"}]`, `[1,{"no":4,"data":"ok"}]`, `[1,{"no":4,"error":"invalid password"}]`
	tests := []struct {
		name      string
		password  string
		localhost bool
		send      []string
		want      []string
		closed    bool
	}{
		{name: "none set", send: []string{request}, want: []string{ok}},
		{name: "none set, one given", send: []string{wrong}, want: []string{ok}},
		{name: "missing", password: "s3cret", send: []string{request}, want: []string{invalid}, closed: true},
		{name: "wrong", password: "s3cret", send: []string{wrong}, want: []string{invalid}, closed: true},
		{name: "of the same length", password: "s3cre7", send: []string{right}, want: []string{invalid}, closed: true},
		{name: "empty", password: "s3cret", send: []string{`[0,{"no":4,"type":"ok","password":""}]`}, want: []string{invalid}, closed: true},
		{name: "right, then none, then a wrong one", password: "s3cret", send: []string{right, request, wrong}, want: []string{ok, ok, ok}},
		{name: "nothing after a wrong one is run", password: "s3cret", send: []string{wrong, right, `[2]`}, want: []string{invalid}, closed: true},
		{name: "what came before a wrong one is answered", password: "s3cret", send: []string{`[2]`, `12`, wrong}, want: []string{`[3]`, `[1,{"no":0,"error":"JSON array expected, got: 12"}]`, invalid}, closed: true},
		{name: "unknown type is not told", password: "s3cret", send: []string{`[0,{"no":4,"type":"nope"}]`}, want: []string{invalid}, closed: true},
		{name: "unknown type is told", password: "s3cret", send: []string{`[0,{"no":4,"type":"nope","password":"s3cret"}]`}, want: []string{`[1,{"no":4,"error":"unknown request type: 'nope'"}]`}},
		{name: "malformed needs none", password: "s3cret", send: []string{`[0,{"no":4}]`, right}, want: []string{`[1,{"no":0,"error":"malformed REQUEST message: missing required field type"}]`, ok}},
		{name: "localhost let in", password: "s3cret", localhost: true, send: []string{request, wrong}, want: []string{ok, ok}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address, _ := serve(t, ServerConfig{
				Handlers: map[string]Handler{"ok": constant("ok", nil)},
				Password: test.password, AlwaysAllowLocalhost: test.localhost,
			})
			peer := dial(t, address)
			peer.send(test.send...)
			peer.expect(test.want...)
			if test.closed {
				peer.expectEnd()
				return
			}
			peer.send(`[2]`)
			peer.expect(`[3]`)
		})
	}
}

// The answers of a link's quick requests come as if the requests ran one after the other; one that
// waits lets the others pass.
func TestRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var order []string // written by handlers that take turns: no lock is needed, and the race detector would tell
	note := func(_ context.Context, _ *Link, request Request) (any, error) {
		order = append(order, string(request.Data))
		return len(order), nil
	}
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"note": note,
		"wait": func(ctx context.Context, _ *Link, request Request) (any, error) {
			request.Proceed()
			request.Proceed()
			select {
			case <-release:
				return "released", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}})
	peer := dial(t, address)
	peer.send(`[0,{"no":1,"type":"wait"}]`)
	for no := 2; no <= 101; no++ {
		peer.send(fmt.Sprintf(`[0,{"no":%d,"type":"note","data":%d}]`, no, no))
	}
	for no := 2; no <= 101; no++ {
		peer.expect(fmt.Sprintf(`[1,{"no":%d,"data":%d}]`, no, no-1))
	}
	close(release)
	peer.expect(`[1,{"no":1,"data":"released"}]`)
	if want := "2 3 4 5"; !strings.HasPrefix(strings.Join(order, " "), want) {
		t.Errorf("ran in the order %v", order[:4])
	}
}

// A handler works on with its peer's half of the connection closed, as `printf … | nc` leaves it.
func TestAnswersAfterPeerFinishedSending(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	release := make(chan struct{})
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"slow": func(context.Context, *Link, Request) (any, error) {
			close(begun)
			<-release
			return "ok", nil
		},
	}})
	peer := dial(t, address)
	peer.send(`[0,{"no":1,"type":"slow"}]`)
	<-begun
	must.Do(t, peer.Conn.(interface{ CloseWrite() error }).CloseWrite())
	close(release)
	peer.expect(`[1,{"no":1,"data":"ok"}]`)
	peer.expectEnd()
}

func TestHandlerContextEndsWithLink(t *testing.T) {
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
	_ = peer.Close()
	if cause := <-ended; !errors.Is(cause, ErrLinkClosed) {
		t.Errorf("cause %v, want ErrLinkClosed", cause)
	}
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	address, server := serve(t, ServerConfig{Handlers: map[string]Handler{
		"slow": func(context.Context, *Link, Request) (any, error) {
			close(begun)
			<-release
			return strings.Repeat("x", 1<<20), nil
		},
		"ok": constant("ok", nil),
	}})
	idle, busy := link(t, address, LinkConfig{}), link(t, address, LinkConfig{})
	must.Do(t, idle.Ping(within(t)))
	answered := make(chan error, 1)
	go func() {
		data, err := busy.Request(context.Background(), "slow", nil)
		if err == nil && len(data) != 1<<20+2 {
			err = fmt.Errorf("%d bytes", len(data))
		}
		answered <- err
	}()
	<-begun
	stopped := make(chan error, 1)
	server.stopping.Store(true) // Shutdown does it too, but when is not to be seen from here
	go func() { stopped <- server.Shutdown(context.Background()) }()
	var remote *RemoteError
	if _, err := idle.Request(within(t), "ok", nil); !errors.As(err, &remote) || remote.Text != "shutting down" {
		t.Errorf("request while shutting down: %v", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("request under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	<-idle.Done()
}

func TestShutdownGivesUp(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	address, server := serve(t, ServerConfig{Handlers: map[string]Handler{
		"hang": func(ctx context.Context, _ *Link, _ Request) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	dial(t, address).send(`[0,{"no":1,"type":"hang"}]`)
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v, want the context's error", err)
	}
}

func TestOnLinksCounts(t *testing.T) {
	t.Parallel()
	counts := make(chan int, 10)
	address, _ := serve(t, ServerConfig{OnLinks: func(open int) { counts <- open }})
	first, second := dial(t, address), dial(t, address)
	for _, peer := range []*wire{first, second} {
		peer.send(`[2]`)
		peer.expect(`[3]`)
		_ = peer.Close()
	}
	for seen := range 4 { // 1 2 1 0, or 1 0 1 0
		open := <-counts
		if open < 0 || open > 2 || seen == 3 && open != 0 {
			t.Errorf("told of %d links", open)
		}
	}
}
