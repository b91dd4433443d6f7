package net

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/principal"
	"jobd/store/storetest/check"
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
	check.ErrorIs(t, <-ended, ErrLinkClosed, "cause")
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
	check.Do(t, <-answered, "request under way")
	check.Do(t, <-stopped, "shutdown")
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
	check.ErrorIs(t, server.Shutdown(ctx), context.Canceled, "shutdown:")
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

// A link inside the process asks for the one that it was made for, and ends with that one's credential.
func TestAnAttachedLinkIsSomebodys(t *testing.T) {
	t.Parallel()
	token, credential, err := principal.NewToken("ann")
	must.Do(t, err)
	path := filepath.Join(t.TempDir(), "principals")
	must.Do(t, os.WriteFile(path, []byte("ann run mail "+credential+"\n"), 0o600))
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
	_, server := serve(t, ServerConfig{Principals: keeper, Password: "s3cret", Handlers: map[string]Handler{
		"who": func(_ context.Context, _ *Link, request Request) (any, error) {
			return request.From.By() + " may " + request.From.Scope.String() + " " + request.From.Targets.String(), nil
		},
	}})
	digest := sha256.Sum256([]byte(token))
	session := server.Recall(digest, "192.0.2.1:4711")
	if session == nil {
		t.Fatal("the token is not known")
	}
	mine, served := net.Pipe()
	server.Attach(served, session)
	l := NewLink(mine, LinkConfig{})
	run(t, l)
	for range 2 {
		answer := must.Get(l.Request(within(t), "who", nil))(t)
		check.Equal(t, string(answer), `"ann (token, 192.0.2.1:4711) may run mail"`, "%s", answer)
	}
	must.Do(t, os.WriteFile(path, []byte("# nobody\n"), 0o600))
	select {
	case <-l.Done():
	case <-within(t).Done():
		t.Error("the link outlives the credential")
	}
	if server.Recall(digest, "") != nil {
		t.Error("the token outlives its line")
	}
	if server.Recall(sha256.Sum256([]byte("s3cret")), "") == nil || server.Recall(sha256.Sum256(nil), "") != nil {
		t.Error("the password is not the one that is known")
	}
}

// What is guessed at the other door counts at both.
func TestGuessesAtEitherDoor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Password: "s3cret"})
		conn, other := net.Pipe()
		defer other.Close()
		defer conn.Close()
		judge := func(secret string) (known bool, took time.Duration) {
			t.Helper()
			begun := time.Now()
			session := must.Get(server.Judge(t.Context(), conn, secret))(t)
			return session != nil, time.Since(begun)
		}
		if known, took := judge("s3cret"); !known || took > 0 {
			t.Errorf("the password: %t after %v", known, took)
		}
		if known, took := judge(""); known || took > 0 {
			t.Errorf("none: %t after %v", known, took)
		}
		if known, _ := judge("guess"); known {
			t.Error("a guess is taken for it")
		}
		link := acceptedBy(t, server)
		begun := time.Now()
		link.send(guess)
		link.expect(`[1,{"no":1,"error":"invalid password"}]`)
		check.Equal(t, time.Since(begun), judgedEvery, "a link of the same address was judged after")
		if known, took := judge("s3cret"); !known || took != judgedEvery {
			t.Errorf("the password behind a guess: %t after %v", known, took)
		}
	})
}

// lineLog is a log that may be written while it is read.
type lineLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Regression: 640 frames without the password made a log of 21 MiB.
func TestPeersDoNotWriteTheLog(t *testing.T) {
	t.Parallel()
	const secret = "written by a peer"
	text := strings.Repeat(secret, 3000)
	frames := map[string]string{
		"an error":         `[1,{"no":0,"error":"` + text + `"}]`,
		"an answer":        `[1,{"no":1,"data":"` + text + `"}]`,
		"nonsense":         `[` + text,
		"a wrong password": `[0,{"no":1,"type":"` + text + `","password":"` + text[:1000] + `"}]`,
		"another protocol": text,
		"a wrong kind":     `["` + text + `"]`,
		"no request":       `[0,{"no":1,"type":7,"` + text + `":1}]`,
	}
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log lineLog
				server := NewServer(ServerConfig{Password: "s3cret", Logger: slog.New(slog.NewTextHandler(&log, nil))})
				for range 100 {
					ours, theirs := net.Pipe()
					server.accept(theirs)
					go func() {
						defer ours.Close()
						go func() { _, _ = io.Copy(io.Discard, ours) }()
						for range 6 {
							_, _ = io.WriteString(ours, frame+"\x04")
						}
					}()
				}
				synctest.Wait()
				if lines := strings.Count(log.String(), "\n"); strings.Contains(log.String(), secret) || lines > linesAtOnce || len(log.String()) > lines*200 {
					t.Errorf("%d lines, %d bytes: %.1000s", lines, len(log.String()), log.String())
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = server.Shutdown(ended)
			})
		})
	}
}

// A peer with the password does not write the log either, though it is heard.
func TestPeersOfOurOwnAreCutShort(t *testing.T) {
	t.Parallel()
	var log lineLog
	address, _ := serve(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	peer, begun := dial(t, address), time.Now()
	for range 3 * linesAtOnce {
		peer.send(`[1,{"no":0,"error":"` + strings.Repeat("x", 60000) + `"}]`)
	}
	peer.send(`[2]`)
	peer.expect(`[3]`)
	most := linesAtOnce + 1 + int(time.Since(begun)/lineEvery)
	if lines := strings.Count(log.String(), "\n"); lines < linesAtOnce || lines > most || len(log.String()) > lines*500 || !strings.Contains(log.String(), "xxx") {
		t.Errorf("%d lines of %d, %d bytes", lines, most, len(log.String()))
	}
}

// All lines about peers together are bounded, and the next one tells how many were left out. Lines
// for debugging are not.
func TestLinesOfAllPeersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lineLog
		base := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		bound := Bounded(base, linesAtOnce, lineEvery)
		for i := range 20 * linesAtOnce {
			peer := bound.With("peer", i)
			peer.With("x", 1).WithGroup("g").Warn("something", "y", 2)
			peer.Debug("detail")
		}
		if some, details := strings.Count(log.String(), "something"), strings.Count(log.String(), "detail"); some != linesAtOnce || details != 20*linesAtOnce {
			t.Errorf("%d lines, %d for debugging", some, details)
		}
		time.Sleep(lineEvery) // the bubble's clock
		bound.Warn("later")
		if want := fmt.Sprintf("msg=later lines_left_out=%d", 19*linesAtOnce); !strings.Contains(log.String(), want) {
			t.Errorf("%s is not told:\n%s", want, log.String()[len(log.String())-200:])
		}
	})
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain é":                "plain é",
		"a\nb\x1b[2J":            `a\nb\x1b[2J`,
		"\u202egnp":              `\u202egnp`,
		"\xff":                   "",
		strings.Repeat("é", 150): strings.Repeat("é", 100) + "… (300 bytes)",
	} {
		check.Equal(t, Excerpt(text), want, "Excerpt(%q) =", text)
	}
}

// Regression: a dozen registrations of 14 MiB took 1.5 GiB. What many send at once is bounded for
// all of them together, and who asks little is answered beside them.
func TestWhatPeersSendIsBoundedInMemory(t *testing.T) {
	t.Parallel()
	const size = 14 << 20
	peers, mayTake := 8, 300<<20
	if raceDetected { // which takes several times the memory and the time for itself
		peers, mayTake = 3, 900<<20
	}
	tests := map[string]string{ // of 14 MiB each
		"unused data":     `"x":"` + strings.Repeat("x", size) + `"`,
		"a million names": `"targets":["t"` + strings.Repeat(`,"tttttttt"`, size/len(`,"tttttttt"`)) + `]`,
		"never complete":  `"x":"` + strings.Repeat("x", size),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			address := serveElsewhere(t, "measured")
			var all sync.WaitGroup
			for range peers {
				peer := dial(t, address)
				all.Go(func() {
					_, _ = io.WriteString(peer, `[0,{"no":1,"type":"register-worker","password":"s3cret"}]`+"\x04")
					_, _ = io.WriteString(peer, `[0,{"no":2,"type":"register-worker","data":{`+data)
					if name != "never complete" {
						_, _ = io.WriteString(peer, "}}]\x04")
						peer.receive()
						peer.receive()
					}
				})
			}
			honest := dial(t, address)
			honest.send(`[0,{"no":1,"type":"peak","password":"s3cret"}]`)
			honest.receive()
			all.Wait()
			honest.send(`[0,{"no":1,"type":"peak"}]`)
			answer := honest.receive()
			peak, err := strconv.Atoi(strings.Split(answer, `"`)[5])
			if err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
			t.Logf("%d MiB", peak>>10)
			if peak<<10 > mayTake {
				t.Errorf("the server took %d MiB", peak>>10)
			}
		})
	}
}

// Many answers to one peer that takes none are not all made, and none of them hinders others.
func TestAnswersAreMadeOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		server := NewServer(ServerConfig{Handlers: map[string]Handler{
			"long": func(_ context.Context, _ *Link, request Request) (any, error) {
				request.Proceed()
				return counted{&made, strings.Repeat("x", 2<<20)}, nil
			},
			"short": constant("ok", nil),
		}})
		peer, other := acceptedBy(t, server), acceptedBy(t, server)
		go func() {
			for no := range 100 {
				_, _ = fmt.Fprintf(peer, `[0,{"no":%d,"type":"long"}]`+"\x04", no+1)
			}
		}()
		synctest.Wait()
		if made > 2 {
			t.Errorf("%d answers were made", made)
		}
		begun := time.Now()
		go other.send(`[0,{"no":1,"type":"short"}]`)
		other.expect(`[1,{"no":1,"data":"ok"}]`)
		if took := time.Since(begun); took > 0 {
			t.Errorf("the other peer waited %v", took)
		}
	})
}

// Regression: two peers that each had much to send, and pinged each other, waited for each other to
// read.
func TestPingsAreReadBesideALongFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, peer := scripted(t, LinkConfig{MaxMessageSize: 1000})
		result := request(l, "a", strings.Repeat("x", 2000)) // more than may wait
		synctest.Wait()
		go func() {
			for range mostQueued / 2 {
				peer.send(`[2]`)
			}
			peer.send(`[1,{"no":0,"error":"read"}]`)
		}()
		synctest.Wait()
		check.Equal(t, l.reads.Load(), mostQueued/2+1, "of … packets were read")
		_ = l.Close()
		<-result
	})
}
