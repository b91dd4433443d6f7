package operator

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// Where there is no socket, the address is asked as ever; where nobody is there either, both are named.
func TestASocketIsTriedFirst(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return map[string]any{"targets": nil}, nil
		},
	}})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	address, first := listener.Addr().String(), filepath.Join(t.TempDir(), "s")
	d := New(Config{Address: address, First: first})
	if _, err := d.Ask(t.Context(), "status", nil); err != nil || d.Where() != address || d.First != "" {
		t.Errorf("%v, at %s", err, d.Where())
	}
	d.Close()
	stop()
	<-served
	_ = server.Shutdown(t.Context())
	d = New(Config{Address: address, First: first})
	want := "no connection to " + first + " (no such file or directory), nor to " + address + ": connection refused"
	if _, err := d.Ask(t.Context(), "status", nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
