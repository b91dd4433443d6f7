package net

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"jobd/net/cert"
	"jobd/net/cert/certtest"
	"jobd/net/principal"
	"jobd/store/storetest/must"
)

// Whatever a peer says first that has no credential, TLS or not: no request of it is run, it is told the end,
// and nothing of it stays.
func FuzzHandshake(f *testing.F) {
	authority, folder := certtest.New(f), f.TempDir()
	file, key := authority.Issue(f, folder, "127.0.0.1")
	principals := folder + "/principals"
	if err := os.WriteFile(principals, []byte("ann admin * cert:ann.example\nshop submit * uid:54321\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	keeper := must.Get(principal.Open(principals, slog.New(slog.DiscardHandler)))(f)
	config := must.Get(cert.Server(cert.Files{Cert: file, Key: key, ClientCA: authority.File}, slog.New(slog.DiscardHandler)))(f)
	var ran atomic.Bool
	server := NewServer(ServerConfig{
		Principals: keeper, Password: aLongPassword, TLS: config,
		Handlers: map[string]Handler{"status": func(context.Context, *Link, Request) (any, error) {
			ran.Store(true)
			return nil, nil
		}},
	})
	f.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ended)
	})
	for _, seed := range []string{
		"", "\x16", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", `[0,{"no":1,"type":"status"}]` + "\x04", "[2]\x04[2]\x04",
		`[0,{"no":1,"type":"status","password":"jobd_ann_0000000000000000000000000000000000000000000000000"}]` + "\x04",
		`[0,{"no":1,"type":"status","by":{"name":"ann","scope":"admin"}}]` + "\x04", "GET / HTTP/1.1\r\n", " \n[3]\x04", "\x16[0,{}]\x04",
		helloOf(f),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		server.accept(ours)
		_ = theirs.SetDeadline(time.Now().Add(20 * time.Millisecond)) // then it hangs up
		go func() { _, _ = theirs.Write(said) }()
		answer, _ := io.ReadAll(theirs)
		_ = theirs.Close()
		if ran.Load() || bytes.Contains(answer, []byte(`"data"`)) {
			t.Fatalf("a request was run: %q", answer)
		}
	})
}

// helloOf is how TLS begins.
func helloOf(f *testing.F) string {
	f.Helper()
	client, peer := net.Pipe()
	go func() { _, _ = Secure(context.Background(), client, of(cert.Trust{Name: "server.example"})) }()
	buf := make([]byte, 4096)
	n := must.Get(peer.Read(buf))(f)
	_ = peer.Close()
	return string(buf[:n])
}
