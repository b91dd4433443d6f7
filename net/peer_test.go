package net

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// foreign is an account that is neither this process's nor jobd's.
const foreign = 54321

// serveUnix is serve, on a unix socket that every account reaches.
func serveUnix(t *testing.T, config ServerConfig) (path string, server *Server) {
	t.Helper()
	listener := listenUnix(t)
	_, server = serve(t, config)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }() // beside the one for TCP
	t.Cleanup(func() {
		cancel()
		check.Do(t, <-served, "serve")
	})
	return listener.Addr().String(), server
}

func listenUnix(t *testing.T) net.Listener {
	t.Helper()
	folder, err := os.MkdirTemp("", "peer")
	if err == nil {
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// as does something as another account; that needs root.
func as(t *testing.T, uid int, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("another account needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			t.Error(e)
			return
		}
		do()
	}()
	<-done
}

func dialUnix(t *testing.T, path string) *wire {
	t.Helper()
	conn, err := net.DialTimeout("unix", path, patience)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{Conn: conn, t: t, reader: bufio.NewReader(conn)}
}

// The peer of a unix socket is known by its account and process, needs no TLS, and is answered like
// one of TCP.
func TestAUnixPeerIsKnownByItsAccount(t *testing.T) {
	t.Parallel()
	remote := make(chan net.Addr, 1)
	path, _ := serveUnix(t, ServerConfig{TLS: &tls.Config{MinVersion: tls.VersionTLS12}, RequireTLS: true, Handlers: map[string]Handler{
		"who": func(_ context.Context, l *Link, r Request) (any, error) {
			remote <- l.RemoteAddr()
			return r.From.By(), nil
		},
	}})
	var peer *wire
	as(t, foreign, func() { peer = dialUnix(t, path) })
	peer.send(`[0,{"no":1,"type":"who"}]`)
	want := PeerAddr{foreign, os.Getpid()}
	peer.expect(`[1,{"no":1,"data":"` + want.String() + `"}]`)
	if got := <-remote; got != want {
		t.Errorf("peer %v, want %v", got, want)
	}
	if !unixPeer.MatchString(want.String()) {
		t.Errorf("a master's word for %v is not known", want)
	}
}

// A master may name a unix socket's peer to its workers, and nothing that only looks like one.
func TestTheCallerOfAMasterMayBeAUnixPeer(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	l := NewLink(ours, LinkConfig{PeerIsMaster: true})
	t.Cleanup(func() { _ = l.Close() })
	for by, want := range map[string]string{
		`{"by":"uid 33 pid 4711"}`:       "uid 33 pid 4711 via master pipe",
		`{"by":"uid 33 pid 4711, root"}`: "master pipe",
	} {
		check.Equal(t, l.passedOn(message{data: []byte(by)}).By(), want, "%s", by)
	}
}

// A peer of a unix socket is one of this host: it needs the password, unless those of this host don't.
func TestAUnixPeerCountsAsLocalhost(t *testing.T) {
	t.Parallel()
	for allowed, answer := range map[bool]string{true: `"data":null`, false: `"error":"invalid password"`} {
		path, _ := serveUnix(t, ServerConfig{Password: aLongPassword, AlwaysAllowLocalhost: allowed, Handlers: map[string]Handler{"echo": echo}})
		peer := dialUnix(t, path)
		peer.send(`[0,{"no":1,"type":"echo"}]`)
		peer.expect(`[1,{"no":1,` + answer + `}]`)
	}
}

// Wrong passwords of an account slow down that account, and nobody else.
func TestWrongPasswordsCountForTheAccount(t *testing.T) {
	t.Parallel()
	path, server := serveUnix(t, ServerConfig{Password: "s3cret", Handlers: map[string]Handler{"echo": echo}})
	var guesser *wire
	as(t, foreign, func() { guesser = dialUnix(t, path) })
	guesser.send(guess)
	guesser.expect(`[1,{"no":1,"error":"invalid password"}]`)
	server.guard.mu.Lock()
	one := server.guard.throttles[foreign]
	if one == nil || len(server.guard.throttles) != 1 {
		t.Fatalf("throttled: %v", server.guard.throttles)
	}
	one.rate = rate.NewLimiter(rate.Every(time.Hour), 1) // its next turn never comes
	one.rate.Allow()
	server.guard.mu.Unlock()
	honest := dialUnix(t, path)
	honest.send(knowing)
	honest.expect(`[1,{"no":1,"data":null}]`)
	as(t, foreign, func() { guesser = dialUnix(t, path) })
	guesser.send(knowing)
	_ = guesser.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // it can only miss a mistake
	if got, err := guesser.reader.ReadString(endOfFrame); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("judged at once: %q, %v", got, err)
	}
}

// A peer of a unix socket behind which bytes wait to be read has hung up as any other; one that only
// says no more has not.
func TestAUnixPeerThatHungUpIsSeen(t *testing.T) {
	t.Parallel()
	listener := listenUnix(t)
	peer := dialUnix(t, listener.Addr().String())
	conn := must.Get(listener.Accept())(t)
	defer conn.Close()
	peer.send(guess)
	must.Do(t, peer.Conn.(*net.UnixConn).CloseWrite())
	if hungUp(conn) {
		t.Error("gone, though it reads on")
	}
	_ = peer.Close()
	if !hungUp(conn) {
		t.Error("not gone")
	}
}

// A client that closes its half behind its request, as socat does, is answered.
func TestAUnixPeerThatSaysNoMoreIsAnswered(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan struct{}), make(chan struct{})
	path, _ := serveUnix(t, ServerConfig{Handlers: map[string]Handler{"slow": func(context.Context, *Link, Request) (any, error) {
		close(asked)
		<-goOn
		return "done", nil
	}}})
	peer := dialUnix(t, path)
	peer.send(`[0,{"no":1,"type":"slow"}]`)
	must.Do(t, peer.Conn.(*net.UnixConn).CloseWrite())
	<-asked
	space := make([]byte, 1)
	if _, err := io.ReadFull(peer.reader, space); err != nil || space[0] != ' ' { // the end of its half was read
		t.Fatalf("received %q, %v", space, err)
	}
	close(goOn)
	check.Equal(t, strings.TrimLeft(peer.receive(), " "), `[1,{"no":1,"data":"done"}]`, "answer")
}

// Nothing is sent to a stranger who listens on a socket.
func TestAnImpostorsSocketIsRefused(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "impostor")
	if err == nil {
		err = os.Chmod(folder, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "s")
	var listener net.Listener
	as(t, foreign, func() {
		if listener, err = net.Listen("unix", path); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	defer listener.Close()
	conn, err := Dial(within(t), path)
	if err == nil || !strings.Contains(err.Error(), "uid 54321 listens there") {
		t.Errorf("connection %v, error %v", conn, err)
	}
	own := listenUnix(t)
	if conn, err = Dial(within(t), own.Addr().String()); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
}
