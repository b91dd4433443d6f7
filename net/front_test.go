package net

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"jobd/net/principal"
	"jobd/store/storetest/must"
)

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
		if answer, err := l.Request(within(t), "who", nil); err != nil || string(answer) != `"ann (token, 192.0.2.1:4711) may run mail"` {
			t.Errorf("%s, %v", answer, err)
		}
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
		if took := time.Since(begun); took != judgedEvery {
			t.Errorf("a link of the same address was judged after %v", took)
		}
		if known, took := judge("s3cret"); !known || took != judgedEvery {
			t.Errorf("the password behind a guess: %t after %v", known, took)
		}
	})
}
