package net

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store/storetest/must"
)

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
			if took := time.Since(begun); took != after {
				t.Errorf("answered after %v, want %v", took, after)
			}
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
		if len(one.throttles) != 1 {
			t.Errorf("%d addresses are remembered after their time", len(one.throttles))
		}
	})
}
