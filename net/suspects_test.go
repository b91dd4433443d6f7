package net

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFailedPasswordsAreSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s suspects
		failed := func(address netip.Addr) time.Duration {
			delay, err := s.judge(t.Context(), prefixOf(address), false)
			if err != nil {
				t.Fatal(err)
			}
			return delay
		}
		one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		for i, want := range []time.Duration{0, 100, 200, 400, 800, 1600, 3000, 3000} {
			if got := failed(one); got != want*time.Millisecond {
				t.Errorf("failure %d is held back %v, want %v ms", i+1, got, int64(want))
			}
		}
		if got := failed(other); got != 0 {
			t.Errorf("another address is held back %v", got)
		}
		time.Sleep(2 * forgetAfter) // the bubble's clock
		if got := failed(one); got != 0 {
			t.Errorf("after a while it is held back %v", got)
		}
		six := netip.MustParseAddr("2001:db8::1")
		failed(six)
		if got := failed(six.Next()); got != firstDelay {
			t.Errorf("a neighbour in the same /64 is held back %v", got)
		}
		for address, n := one, 0; n < 3*maxRemembered; address, n = address.Next(), n+1 {
			failed(address)
		}
		if len(s.known) > maxRemembered {
			t.Errorf("%d addresses are remembered", len(s.known))
		}
	})
}

// The right password is never held back, whatever came from the same address before.
func TestRightPasswordIsNotSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Handlers: map[string]Handler{"echo": echo}, Password: "s3cret"})
		defer func() { _ = server.Shutdown(context.Background()) }()
		try := func(password string) time.Duration {
			ours, theirs := net.Pipe()
			server.accept(theirs)
			peer, begun := pipeEnd(t, ours), time.Now()
			go peer.send(`[0,{"no":1,"type":"echo","password":"` + password + `"}]`)
			peer.receive()
			defer peer.Close()
			return time.Since(begun)
		}
		var waited time.Duration
		for range 6 {
			waited = try("guess")
		}
		if waited != 1600*time.Millisecond {
			t.Errorf("the sixth guess was answered after %v", waited)
		}
		if waited := try("s3cret"); waited != 0 {
			t.Errorf("the right password was held back %v", waited)
		}
	})
}

// guesser makes connections that each give a wrong password, and leaves them at once or waits.
func guesser(t *testing.T, server *Server, many int, leave time.Duration) {
	for range many {
		ours, theirs := net.Pipe()
		server.accept(theirs)
		go func() {
			_, _ = io.WriteString(ours, `[0,{"no":1,"type":"echo","password":"guess"}]`+"\x04")
			time.AfterFunc(leave, func() { _ = ours.Close() })
			_, _ = io.Copy(io.Discard, ours)
		}()
	}
}

func (s *Server) guesses() int {
	s.guard.suspects.mu.Lock()
	defer s.guard.suspects.mu.Unlock()
	return s.guard.suspects.known[netip.Prefix{}].failures
}

// Regression: 800 connections of one address had 160 passwords looked at in a second. Who leaves
// before the answer has learned as much, and must not be faster.
func TestGuessesOfAnAddressAreBounded(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]time.Duration{"who waits for the answers": time.Hour, "who leaves at once": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := NewServer(ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
				const seconds = 20
				for begun := time.Now(); time.Since(begun) < seconds*time.Second; time.Sleep(time.Second) {
					guesser(t, server, 200, leave)
				}
				if n := server.guesses(); n > guessesAtOnce+seconds*int(time.Second/guessEvery) {
					t.Errorf("%d guesses in %d s", n, seconds)
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = server.Shutdown(ended)
			})
		})
	}
}

// Who knows the password is let in though others guess, from the same address, as fast as they may.
func TestRightPasswordBesideGuesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
		guesser(t, server, 200, time.Hour)
		synctest.Wait()
		for range 20 {
			ours, theirs := net.Pipe()
			server.accept(theirs)
			peer, begun := pipeEnd(t, ours), time.Now()
			go peer.send(`[0,{"no":1,"type":"echo","password":"s3cret"}]`)
			peer.expect(`[1,{"no":1,"data":null}]`)
			if waited := time.Since(begun); waited > guessEvery {
				t.Errorf("let in after %v", waited)
			}
			_ = peer.Close()
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = server.Shutdown(ended)
	})
}

// Who is not looked at in time is told so.
func TestGuessesThatMustWaitTooLongAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Password: "s3cret", passwordTimeout: 5 * guessEvery})
		ours, theirs := net.Pipe()
		server.accept(theirs)
		peer := pipeEnd(t, ours)
		guesser(t, server, 2*guessesAtOnce, time.Hour)
		go peer.send(`[0,{"no":1,"type":"echo","password":"guess"}]`)
		if answer := peer.receive(); !strings.Contains(answer, refusedPassword.Error()) && !strings.Contains(answer, errCrowdedOut.Error()) {
			t.Errorf("answer %s", answer)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = server.Shutdown(ended)
	})
}

// Regression: of those who wait, a guess that was woken and found somebody else faster came to stand
// in front of whoever had just come, who then waited twice as long.
func TestAGuessThatLostItsTurnWaitsBehindNewcomers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s suspects
		var from netip.Prefix
		for range guessesAtOnce {
			s.tryJudge(from, false, false)
		}
		_, honest := s.tryJudge(from, true, false)
		_, lost := s.tryJudge(from, false, true)
		<-honest
		select {
		case <-lost:
			t.Error("both have a turn at once")
		default:
		}
		s.leave(from, lost)
	})
}
