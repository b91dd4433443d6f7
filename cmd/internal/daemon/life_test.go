package daemon_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// working is an actor that tells when its context has ended, and returns when it is let.
type working struct {
	ended chan struct{}
	end   chan error
}

func newWorking() working { return working{make(chan struct{}), make(chan error, 1)} }

func (w working) run(ctx context.Context) error {
	<-ctx.Done()
	close(w.ended)
	return <-w.end
}

// live runs actors, one a stage, and gives what Run returns.
func live(t *testing.T, life daemon.Life, caught chan os.Signal, actors ...daemon.Actor) <-chan error {
	t.Helper()
	for _, actor := range actors {
		life.Stages = append(life.Stages, []daemon.Actor{actor})
	}
	life.Log = slog.New(slog.DiscardHandler)
	over := make(chan error, 1)
	go func() { over <- life.Run(caught) }()
	return over
}

// What serves others ends when they have, and the signals meanwhile are heeded.
func TestStagesEndOneAfterTheOther(t *testing.T) {
	t.Parallel()
	first, second, caught := newWorking(), newWorking(), make(chan os.Signal)
	reloaded, hurried := make(chan struct{}), make(chan struct{})
	over := live(t, daemon.Life{
		Ending: daemon.NewEnding(),
		Reload: func() { reloaded <- struct{}{} }, Hurry: func() { hurried <- struct{}{} },
	}, caught, first.run, second.run)
	caught <- unix.SIGHUP
	<-reloaded
	caught <- unix.SIGTERM
	<-first.ended
	caught <- unix.SIGHUP
	<-reloaded
	caught <- unix.SIGINT
	<-hurried
	select {
	case <-second.ended:
		t.Error("the second stage ended before the first")
	default:
	}
	first.end <- nil
	<-second.ended
	second.end <- errors.New("too late to count")
	check.Do(t, <-over)
}

func TestAnActorThatReturnsEndsTheOthers(t *testing.T) {
	t.Parallel()
	want := errors.New("it broke")
	first := newWorking()
	first.end <- errors.New("by the other's end")
	over := live(t, daemon.Life{Ending: daemon.NewEnding()}, nil, first.run, func(context.Context) error { return want })
	check.ErrorIs(t, <-over, want)
}

// who tells by what the peer is known.
var who = map[string]jobnet.Handler{"who": func(_ context.Context, l *jobnet.Link, _ jobnet.Request) (any, error) {
	return l.RemoteAddr().Network(), nil
}}

// ask sends one request over a link of its own.
func ask(t *testing.T, address string) string {
	t.Helper()
	link := must.Get(jobnet.Connect(t.Context(), address, jobnet.LinkConfig{}))(t)
	defer link.Close()
	go func() { _ = link.Run(t.Context()) }()
	answer := must.Get(link.Request(t.Context(), "who", nil))(t)
	return string(answer)
}

// One server answers on TCP, on the socket that is configured and on those that it was given; at its
// end the first two are gone.
func TestServeOnSockets(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	given := must.Get(net.Listen("unix", filepath.Join(folder, "given")))(t)
	given.(*net.UnixListener).SetUnlinkOnClose(false)
	c := conf.Listen{Host: "127.0.0.1", Unix: filepath.Join(folder, "own")}
	config := jobnet.ServerConfig{Handlers: who, Logger: slog.New(slog.DiscardHandler)}
	server := must.Get(daemon.Listen(c, []net.Listener{given}, "peers", config))(t)
	check.Elements(t, server.Sockets(), []string{c.Unix, given.Addr().String()}, "sockets")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, time.Second, "too late") }()
	for address, want := range map[string]string{server.Address(): `"tcp"`, c.Unix: `"unix"`, given.Addr().String(): `"unix"`} {
		check.Equal(t, ask(t, address), want, "%s", address)
	}
	stop()
	check.Do(t, errors.Join(<-served, server.Close()))
	if _, err := os.Lstat(c.Unix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is left: %v", err)
	}
}

// A socket that is configured and given is listened on once; without host and port it is the address.
func TestASocketThatIsGiven(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	given := must.Get(net.Listen("unix", path))(t)
	server := must.Get(daemon.Listen(conf.Listen{Unix: path}, []net.Listener{given}, "peers", jobnet.ServerConfig{}))(t)
	defer server.Close()
	if server.Address() != path || len(server.Sockets()) != 1 {
		t.Errorf("%s, %q", server.Address(), server.Sockets())
	}
	if _, err := daemon.Listen(conf.Listen{Unix: path}, nil, "peers", jobnet.ServerConfig{}); err == nil ||
		!strings.Contains(err.Error(), "listen for peers (key listen_unix): ") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a live one: %v", err)
	}
	// What was taken before an error is let go of.
	if _, err := daemon.Listen(conf.Listen{Unix: path + ".2", Host: "192.0.2.1"}, nil, "peers", jobnet.ServerConfig{}); err == nil {
		t.Error("listens at an address of nobody")
	}
	if _, err := os.Lstat(path + ".2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket is left: %v", err)
	}
}

// The page of a daemon asks that as a client does, for who looks at it: no gate is passed by.
func TestADaemonIsAskedBySomebody(t *testing.T) {
	t.Parallel()
	asked := map[string]jobnet.Handler{"running": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		return request.From.By(), nil
	}, "status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return nil, nil }}
	config := jobnet.ServerConfig{
		Handlers: api.Gate(asked, func(jobnet.Request, error) {}), Logger: slog.New(slog.DiscardHandler),
	}
	server := must.Get(daemon.Listen(conf.Listen{Host: "127.0.0.1", Password: "a password that nobody sends"}, nil, "peers", config))(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, time.Second, "too late") }()
	ann := principal.Known("ann", "token", "192.0.2.1:4711")
	d := server.As(ann, false)
	var by string
	if err := d.AskInto(t.Context(), "running", nil, &by); err != nil || by != "ann (token, 192.0.2.1:4711)" {
		t.Errorf("%q, %v", by, err)
	}
	ann.Scope = principal.Status
	if _, err := d.Ask(t.Context(), "running", nil); err == nil || !strings.Contains(err.Error(), "ann may not ask for running") {
		t.Errorf("beyond its scope: %v", err)
	}
	d.Close()
	stop()
	check.Do(t, errors.Join(<-served, server.Close()))
}
