package net

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		serveWithFewDescriptors()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of the tests: a test that reaches it has failed.
const patience = 2 * time.Minute

// within is a context that ends the test's waits.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// serve starts a server on a free port and stops it when the test ends.
func serve(t *testing.T, config ServerConfig) (address string, server *Server) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server = NewServer(config)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		check.Do(t, <-served, "serve")
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ended) // at once; tests of an orderly end call it themselves
	})
	return listener.Addr().String(), server
}

// link connects a running link that is closed when the test ends.
func link(t *testing.T, address string, config LinkConfig) *Link {
	t.Helper()
	l := must.Get(Connect(within(t), address, config))(t)
	run(t, l)
	return l
}

func run(t *testing.T, l *Link) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Run(context.Background()) }()
	t.Cleanup(func() { _ = l.Close(); <-ended })
}

// wire is a peer that speaks bytes.
type wire struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func dial(t *testing.T, address string) *wire {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", address, patience))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{Conn: conn, t: t, reader: bufio.NewReader(conn)}
}

// send writes frames in one packet. Tests may call it in a goroutine of its own.
func (w *wire) send(frames ...string) {
	w.t.Helper()
	var packet []byte
	for _, frame := range frames {
		packet = append(append(packet, frame...), endOfFrame)
	}
	must.Get(w.Write(packet))(w.t)
}

// receive reads one frame.
func (w *wire) receive() string {
	w.t.Helper()
	frame, err := w.reader.ReadString(endOfFrame)
	if err != nil {
		w.t.Fatalf("receive: %v (after %q)", err, frame)
	}
	return frame[:len(frame)-1]
}

// expect reads frames and compares them, byte for byte.
func (w *wire) expect(frames ...string) {
	w.t.Helper()
	for _, want := range frames {
		must.Equal(w.t, w.receive(), want, "received")
	}
}

// expectEnd reads the end of the connection.
func (w *wire) expectEnd() {
	w.t.Helper()
	if rest, err := w.reader.ReadString(endOfFrame); err == nil || len(rest) > 0 {
		w.t.Fatalf("received %q, want the end of the connection", rest)
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		w.t.Fatal("the connection was not closed")
	}
}

// constant answers always the same.
func constant(data any, err error) Handler {
	return func(context.Context, *Link, Request) (any, error) { return data, err }
}

// echo answers with the request's data.
func echo(_ context.Context, _ *Link, request Request) (any, error) {
	if request.Data == nil {
		return nil, nil
	}
	return json.RawMessage(request.Data), nil
}

// pipeEnd is a peer at one end of a pipe. Its deadline is the bubble's, far away.
func pipeEnd(t *testing.T, conn net.Conn) *wire {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{Conn: conn, t: t, reader: bufio.NewReader(conn)}
}
