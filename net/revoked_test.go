package net

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"jobd/net/principal"
	"jobd/store/storetest/must"
)

// Regression: a peer that had said all that it had to say, and closed its half, kept its link, and what it had
// asked for went on, after its credential was removed.
func TestARevokedPeerThatSaysNoMore(t *testing.T) {
	t.Parallel()
	token, credential, err := principal.NewToken("ann")
	must.Do(t, err)
	path := filepath.Join(t.TempDir(), "principals")
	must.Do(t, os.WriteFile(path, []byte("ann run * "+credential+"\n"), 0o600))
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
	ended := make(chan struct{})
	address, _ := serve(t, ServerConfig{Principals: keeper, Handlers: map[string]Handler{
		"long": func(ctx context.Context, _ *Link, request Request) (any, error) {
			defer close(ended)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	conn := must.Get(net.Dial("tcp", address))(t)
	defer conn.Close()
	must.Get(fmt.Fprintf(conn, `[0,{"no":1,"type":"long","password":%q}]`+"\x04", token))(t)
	must.Do(t, conn.(*net.TCPConn).CloseWrite())
	must.Get(conn.Read(make([]byte, 1)))(t) // a blank, since the server has read the end
	must.Do(t, os.WriteFile(path, []byte("# nobody\n"), 0o600))
	select {
	case <-ended:
	case <-within(t).Done():
		t.Error("what it asked for goes on")
	}
}
