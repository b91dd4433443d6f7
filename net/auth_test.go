package net

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// serveVariable has the test's program be a server with few descriptors.
const (
	serveVariable  = "JOBNET_TEST_SERVE"
	fewDescriptors = 160
)

// serveWithFewDescriptors tells its address on its output, and ends with its input. Its handler
// opens as many files as a daemon may need.
func serveWithFewDescriptors() {
	if kind := os.Getenv(serveVariable); kind != "measured" {
		limit := syscall.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			panic(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	config := ServerConfig{AlwaysAllowLocalhost: os.Getenv(serveVariable) == "trusted", Password: "s3cret", Handlers: map[string]Handler{
		"work": func(context.Context, *Link, Request) (any, error) {
			for range fewDescriptors / 8 {
				file, err := os.Open(os.DevNull)
				if err != nil {
					return nil, Refusal(err.Error())
				}
				defer file.Close()
			}
			return "ok", nil
		},
		"register-worker": func(_ context.Context, _ *Link, request Request) (any, error) {
			targets := 0
			from := &Reader{Fields: request.Fields()}
			from.Each("targets", func(json.RawMessage) { targets++ })
			return targets, from.Err
		},
		"peak": func(context.Context, *Link, Request) (any, error) {
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return nil, err
			}
			_, peak, _ := strings.Cut(string(status), "VmHWM:")
			return strings.Fields(peak)[0], nil // KiB
		},
	}}
	go func() { _ = NewServer(config).Serve(context.Background(), listener) }()
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serveElsewhere starts such a server in a process of its own.
func serveElsewhere(t *testing.T, kind string) (address string) {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), serveVariable+"="+kind)
	process.Stderr = os.Stderr
	input := must.Get(process.StdinPipe())(t)
	output := must.Get(process.StdoutPipe())(t)
	must.Do(t, process.Start())
	t.Cleanup(func() { _ = input.Close(); _ = process.Wait() })
	address = must.Get(bufio.NewReader(output).ReadString('\n'))(t)
	return strings.TrimSpace(address)
}

// Regression: peers that gave no password, and those on the same host that said nothing at all,
// used up the process's descriptors: nobody else was let in, and no file could be opened.
func TestDescriptorsAreKeptForWork(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"trusted", "with a password"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := serveElsewhere(t, kind)
			for round := range 4 {
				for range fewDescriptors {
					dial(t, address)
				}
				honest := dial(t, address)
				honest.send(`[0,{"no":1,"type":"work","password":"s3cret"}]`)
				must.Equal(t, honest.receive(), `[1,{"no":1,"data":"ok"}]`, "round %d: answer", round)
			}
		})
	}
}

// A link that has asked something is not closed for those that come later; they are told no.
func TestLinksInUseAreNotClosed(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{maxLinks: 5, Handlers: map[string]Handler{"ok": constant("ok", nil)}})
	var used []*wire
	for range 5 {
		peer := dial(t, address)
		peer.send(`[0,{"no":1,"type":"ok"}]`)
		peer.expect(`[1,{"no":1,"data":"ok"}]`)
		used = append(used, peer)
	}
	dial(t, address).expectEnd()
	for _, peer := range used {
		peer.send(`[2]`)
		peer.expect(`[3]`)
	}
}

// Sixteen characters can't be guessed online, whatever they are made of; fifteen may be.
func TestWhichPasswordsAreShort(t *testing.T) {
	t.Parallel()
	for password, short := range map[string]bool{"123456789012345": true, "1234567890123456": false, "äöüßäöüßäöüßäöü": true, "äöüßäöüßäöüßäöüß": false} {
		check.Equal(t, IsShort(password), short, "%q is short", password)
	}
}

// Pitfall 35: digests are compared, so passwords of any length take the same way.
func TestPitfall35PasswordCheck(t *testing.T) {
	t.Parallel()
	guard := newGuard(nil, "s3cret", false)
	for password, want := range map[string]bool{
		"s3cret": true, "": false, "s": false, "s3cre": false, "s3cret ": false, "S3CRET": false, strings.Repeat("s3cret", 1000): false,
	} {
		if guard.knows(password) != want {
			t.Errorf("knows(%.20q) = %v", password, !want)
		}
	}
}

// Pitfall 38: passwords are never logged.
func TestPitfall38PasswordsAreNotLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.Level(-8)}))
	synctest.Test(t, func(t *testing.T) {
		for _, frame := range []string{
			`[0,{"no":1,"type":"echo","password":"hunter2"}]`,
			`[0,{"no":1,"type":"echo","password":"s3cret"}]`,
			`[0,{"no":1,"type":"broken","password":"s3cret"}]`,
			`[0,{no:1,"type":"echo","password":"s3cret"}]`,
		} {
			peer := accepted(t, ServerConfig{Logger: logger, Password: "s3cret", Handlers: map[string]Handler{
				"echo": echo, "broken": constant(nil, errors.New("broken")),
			}})
			go peer.send(frame)
			synctest.Wait()
			_ = peer.Close()
			synctest.Wait()
		}
	})
	if !strings.Contains(log.String(), "wrong password") || !strings.Contains(log.String(), "broken") {
		t.Errorf("the log lacks what it should tell:\n%s", log.String())
	}
	if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log tells a password:\n%s", log.String())
	}
}

// Regression: of many who came at once, each with the password in its first packet, most were
// turned away before it was read.
func TestAPasswordUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Password: "s3cret", maxUnauthenticated: 3, Handlers: map[string]Handler{"echo": echo}})
		t.Cleanup(func() { _ = server.Shutdown(t.Context()) })
		var peers []*wire
		for range 10 {
			ours, theirs := net.Pipe()
			server.accept(theirs)
			peer := pipeEnd(t, ours)
			peers = append(peers, peer)
			go func() {
				time.Sleep(unauthenticatedGrace - time.Millisecond) // the bubble's clock
				peer.send(`[0,{"no":1,"type":"echo","password":"s3cret"}]`)
			}()
		}
		for _, peer := range peers {
			peer.expect(`[1,{"no":1,"data":null}]`)
		}
	})
}

const (
	aLongPassword = "sixteen-letters!"
	guess         = `[0,{"no":1,"type":"echo","password":"guess"}]`
	knowing       = `[0,{"no":1,"type":"echo","password":"s3cret"}]`
)

// crowd is many links of one address, each with one password; their deadline is far away.
func crowd(t *testing.T, server *Server, many int, frame string) (peers []*wire) {
	for range many {
		peer := acceptedBy(t, server)
		go peer.send(frame)
		synctest.Wait() // the order of arrival
		peers = append(peers, peer)
	}
	return peers
}

// An address that gave a wrong password is judged ten times a second, in the order of arrival, for
// a minute; until then, and afterwards, at once.
func TestAnAddressIsThrottledAfterAWrongPassword(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
		begun := time.Now()
		answered := func(peer *wire, want string, after time.Duration) {
			t.Helper()
			peer.expect(want)
			check.Equal(t, time.Since(begun), after, "answered after")
		}
		const wrong, right = `[1,{"no":1,"error":"invalid password"}]`, `[1,{"no":1,"data":null}]`
		answered(crowd(t, server, 1, knowing)[0], right, 0)
		answered(crowd(t, server, 1, guess)[0], wrong, 0)
		guessers := crowd(t, server, 20, guess)
		honest := crowd(t, server, 1, knowing)[0]
		for i, peer := range guessers {
			answered(peer, wrong, time.Duration(i+1)*judgedEvery)
		}
		answered(honest, right, 21*judgedEvery)
		time.Sleep(throttledFor + judgedEvery) // the bubble's clock
		begun = time.Now()
		for range 3 {
			answered(crowd(t, server, 1, knowing)[0], right, 0)
		}
	})
}

// A peer that is not judged in time is told so.
func TestAThrottledPeerIsToldWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{
			Password: "s3cret", passwordTimeout: 5 * judgedEvery, Handlers: map[string]Handler{"echo": echo},
		})
		guessers := crowd(t, server, 8, guess)
		for i, peer := range guessers {
			want := "invalid password"
			if i > 4 {
				want = errCrowdedOut.Error()
			}
			if i == 5 {
				continue // its turn comes at the very end of its time
			}
			peer.expect(`[1,{"no":1,"error":"` + want + `"}]`)
		}
	})
}

// Peers that have hung up take no turn: those behind them need not wait for them.
func TestPeersThatHungUpAreNotJudged(t *testing.T) {
	t.Parallel()
	address, server := serve(t, ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
	first := dial(t, address)
	first.send(guess)
	first.expect(`[1,{"no":1,"error":"invalid password"}]`)
	const many = 600 // which would take a minute
	for range many {
		peer := dial(t, address)
		peer.send(guess)
		_ = peer.Close()
	}
	begun, honest := time.Now(), dial(t, address)
	honest.send(knowing)
	honest.expect(`[1,{"no":1,"data":null}]`)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("let in after %v", took)
	}
	_ = server.Shutdown(within(t))
}

// A peer behind which bytes wait to be read has hung up as any other.
func TestHungUpIsSeenBehindUnreadBytes(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	peer := dial(t, listener.Addr().String())
	conn := must.Get(listener.Accept())(t)
	defer conn.Close()
	if hungUp(conn) {
		t.Error("a living peer has hung up")
	}
	peer.send(guess)
	_ = peer.Close()
	for begun := time.Now(); !hungUp(conn); {
		if time.Since(begun) > patience {
			t.Fatal("it is taken for alive")
		}
	}
}

// 300 wrong passwords a second beside 50 clients of the same address lock nobody out
// where the password is long.
func TestGuessesLockNobodyOutWhereThePasswordIsLong(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Password: aLongPassword, Handlers: map[string]Handler{"echo": echo}})
	ctx, stop := context.WithCancel(within(t))
	var all sync.WaitGroup
	var guesses atomic.Int64
	all.Go(func() {
		for tick := time.NewTicker(time.Second / 300); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			all.Go(func() {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, guess+"\x04")
				answer := make([]byte, 100)
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				if n, _ := conn.Read(answer); n > 0 {
					guesses.Add(1)
				}
			})
		}
	})
	var slowest atomic.Int64
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			for range 10 {
				begun := time.Now()
				l, err := Connect(ctx, address, LinkConfig{Password: aLongPassword})
				if err != nil {
					t.Error(err)
					return
				}
				ran := make(chan struct{})
				go func() { defer close(ran); _ = l.Run(ctx) }()
				if _, err := l.Request(ctx, "echo", nil); err != nil {
					t.Errorf("an honest client: %v", err)
				}
				_ = l.Close()
				<-ran
				for took := int64(time.Since(begun)); took > slowest.Load(); {
					slowest.Store(took)
				}
				select {
				case <-time.After(100 * time.Millisecond): // clients of the same kind come and go
				case <-ctx.Done():
				}
			}
		})
	}
	clients.Wait()
	stop()
	all.Wait()
	t.Logf("%d guesses; the slowest honest request took %v", guesses.Load(), time.Duration(slowest.Load()))
	if guesses.Load() < 100 {
		t.Errorf("only %d guesses were answered", guesses.Load())
	}
	if slowest := time.Duration(slowest.Load()); slowest > 10*time.Second {
		t.Errorf("an honest client waited %v", slowest)
	}
}

func TestTheThrottleRemembersSoManyAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := newGuard(nil, "s3cret", false)
		throttled := func(text string) bool {
			begun := time.Now()
			must.Do(t, one.wait(t.Context(), prefixOf(netip.MustParseAddr(text)), nil))
			return time.Since(begun) > 0
		}
		six := netip.MustParseAddr("2001:db8::1")
		one.failed(prefixOf(six))
		if !throttled(six.Next().String()) {
			t.Error("a neighbour in the same /64 is not throttled")
		}
		if throttled("192.0.2.1") {
			t.Error("another address is throttled")
		}
		for n := range 3 * maxRemembered {
			one.failed(prefixOf(netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", n>>8, n&255))))
		}
		if len(one.throttles) > maxRemembered {
			t.Errorf("%d addresses are remembered", len(one.throttles))
		}
		time.Sleep(2 * throttledFor) // the bubble's clock
		one.failed(prefixOf(netip.MustParseAddr("192.0.2.1")))
		check.Equal(t, len(one.throttles), 1, "addresses are remembered after their time")
	})
}
