package net

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Pitfall 35: digests are compared, so passwords of any length take the same way.
func TestPitfall35PasswordCheck(t *testing.T) {
	t.Parallel()
	guard := newGuard("s3cret", false)
	for password, want := range map[string]bool{
		"s3cret": true, "": false, "s": false, "s3cre": false, "s3cret ": false, "S3CRET": false, strings.Repeat("s3cret", 1000): false,
	} {
		if guard.knows(password) != want {
			t.Errorf("knows(%.20q) = %v", password, !want)
		}
	}
}

func TestFailedPasswordsAreSlowedDown(t *testing.T) {
	t.Parallel()
	guard := newGuard("s3cret", false)
	now := time.Now()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i, want := range []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := guard.failed(one, now); got != want*time.Millisecond {
			t.Errorf("failure %d is held back %v, want %v ms", i+1, got, int64(want))
		}
	}
	if got := guard.failed(other, now); got != 0 {
		t.Errorf("another address is held back %v", got)
	}
	if got := guard.failed(one, now.Add(2*forgetAfter)); got != 0 {
		t.Errorf("after a while it is held back %v", got)
	}
	six := netip.MustParseAddr("2001:db8::1")
	guard.failed(six, now)
	if got := guard.failed(six.Next(), now); got != firstDelay {
		t.Errorf("a neighbour in the same /64 is held back %v", got)
	}
	for address, n := one, 0; n < 3*maxRemembered; address, n = address.Next(), n+1 {
		guard.failed(address, now.Add(time.Duration(n)))
	}
	if len(guard.failures) > maxRemembered {
		t.Errorf("%d addresses are remembered", len(guard.failures))
	}
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

// Regression: of many who came at once, each with the password in its first packet, most were turned away before it was read.
func TestAPasswordUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(ServerConfig{Password: "s3cret", MaxUnproven: 3, Handlers: map[string]Handler{"echo": echo}})
		t.Cleanup(func() { _ = server.Shutdown(t.Context()) })
		var peers []*wire
		for range 10 {
			ours, theirs := net.Pipe()
			server.accept(theirs)
			peer := pipeEnd(t, ours)
			peers = append(peers, peer)
			go func() {
				time.Sleep(unprovenGrace - time.Millisecond) // the bubble's clock
				peer.send(`[0,{"no":1,"type":"echo","password":"s3cret"}]`)
			}()
		}
		for _, peer := range peers {
			peer.expect(`[1,{"no":1,"data":null}]`)
		}
	})
}
