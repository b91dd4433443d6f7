package net

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
