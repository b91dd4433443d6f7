package wire

import (
	"bytes"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// connected is two ends of a connection.
func connected(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	ends := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	var conns [2]*net.UnixConn
	for i, fd := range ends {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return conns[0], conns[1]
}

// A worker that stands still must hold up neither the reactor nor the order of what it is told, and
// what waits for it is not encoded meanwhile.
func TestAWorkerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	near, far := connected(t)
	o := NewOutbox(near)
	const messages = 2000
	sizes := []int{0, 10, chunk / 2, 3 * chunk}
	kept := bytes.Repeat([]byte("x"), 3*chunk)
	for n := range messages {
		done := journal.Done{Result: "ok", Stdout: journal.Output{Kept: kept[:sizes[n%len(sizes)]]}}
		o.Post(Message{Kind: Output, ID: ID{Job: int64(n), Attempt: 1}, Done: done})
	}
	o.mu.Lock()
	waiting := len(o.messages)
	o.mu.Unlock()
	if waiting < messages/2 {
		t.Errorf("%d messages wait", waiting)
	}
	r := NewReader(far)
	for n := range messages {
		m, err := r.Next()
		if err != nil || m.ID.Job != int64(n) || len(m.Done.Stdout.Kept) != sizes[n%len(sizes)] {
			t.Fatalf("message %d: job %d, %d bytes: %v", n, m.ID.Job, len(m.Done.Stdout.Kept), err)
		}
	}
	o.Close()
	<-o.Written()
}

// What a killed worker still asked for is read, though nobody can be told any more.
func TestALostPeerDoesNotEndReading(t *testing.T) {
	t.Parallel()
	near, far := connected(t)
	o := NewOutbox(near)
	m := Message{Kind: Fetch, ID: ID{Job: 7, Attempt: 1}}
	must.Get(far.Write(m.encode(nil)))(t)
	far.Close()
	o.Post(Message{Kind: Forget})
	r := NewReader(near)
	if m, err := r.Next(); err != nil || m.ID.Job != 7 {
		t.Errorf("message %+v: %v", m, err)
	}
	if _, err := r.Next(); !HungUp(err) {
		t.Errorf("error %v", err)
	}
	o.Close()
	<-o.Written()
}
