package request

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// counted is a server that counts connections and requests.
type counted struct{ connections, requests atomic.Int64 }

func (n *counted) serve(t *testing.T, handle func(c net.Conn, r *bufio.Reader)) string {
	t.Helper()
	return raw(t, func(c net.Conn) {
		n.connections.Add(1)
		r := bufio.NewReader(c)
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			n.requests.Add(1)
			handle(c, r)
		}
	})
}

// probed waits until the service was dialled, so that it has its connection.
func (f *fixture) probed() {
	f.t.Helper()
	for deadline := time.Now().Add(hung); f.standing().Ready == 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			f.t.Fatalf("there is no connection: %+v", f.standing())
		}
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	var n counted
	url := n.serve(t, func(c net.Conn, _ *bufio.Reader) { fmt.Fprint(c, plain("200 OK", echo, "out")) })
	f, spec := served(t, url)
	s := f.services["mail"]
	for range 50 {
		done := must.Get(f.run(spec))(t)
		must.Equal(t, done.Result, "ok", "it ended as %+v", done)
	}
	// One may be the probe's; more only where the machine stood still for longer than one is kept.
	if got := n.requests.Load(); got != 50 || n.connections.Load() > 25 {
		t.Errorf("50 jobs were %d requests over %d connections", got, n.connections.Load())
	}
	if st := s.standing(); st.Jobs != 50 || st.Busy != 0 || st.Boots != n.connections.Load() || st.Unready != "" {
		t.Errorf("its standing is %+v", st)
	}
}

// What may not be used again: the answer leaves it open where it ends, or says that it closes.
func TestAConnectionWhoseStateIsNotKnownIsClosed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"closing":   plain("200 OK", echo+"Connection: close\r\n", "out"),
		"HTTP/1.0":  "HTTP/1.0 200 OK\r\n" + echo + "Content-Length: 3\r\n\r\nout",
		"more":      plain("200 OK", echo, "out") + plain("200 OK", "", "of another"),
		"a failure": plain("502 Bad", echo, "out"),
		"no echo":   plain("200 OK", "", "out"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n counted
			url := n.serve(t, func(c net.Conn, _ *bufio.Reader) { fmt.Fprint(c, answer) })
			f, spec := served(t, url)
			f.probed()
			for i := range 3 {
				_, _ = f.run(spec)
				st := f.standing()
				check.Equal(t, st.Ready, 0, "after request %d its standing is %+v", i+1, st)
			}
			check.Equal(t, n.requests.Load(), 3, "3 jobs were … requests")
		})
	}
}

// A service that sends a second answer to a request, late enough to be there for the next one: that
// one's outcome is unknown. It was ok, with what the job before had written, and so were the jobs behind it.
func TestALateAnswerIsNoOtherJobs(t *testing.T) {
	t.Parallel()
	var n counted
	url := n.serve(t, func(c net.Conn, _ *bufio.Reader) {
		if n.requests.Load() > 1 {
			fmt.Fprint(c, plain("200 OK", echo, "of the first"))
		}
		fmt.Fprint(c, plain("200 OK", echo, "of the first"))
	})
	f, spec := served(t, url)
	if done, err := f.run(spec); err != nil || string(done.Stdout.Kept) != "of the first" {
		t.Fatalf("the first ended as %+v, %v", done, err)
	}
	spec.Job = 8
	done, err := f.run(spec)
	if got := saidOf(done, err).Unknown; !strings.Contains(got, `the answer is another request's: its Jobd-Claim is "7-2-@abcdefghi", not "8-2-@abcdefghi"`) {
		t.Errorf("the second ended as %+v, %v", done, err)
	}
}

// A service has echoed once, and says ok without an echo the second time: nobody knows whose answer
// that is. A page that tells of an error is taken for what it says.
func TestAnAnswerOnAKeptConnectionNamesItsRequest(t *testing.T) {
	t.Parallel()
	var n counted
	url := n.serve(t, func(c net.Conn, _ *bufio.Reader) {
		fmt.Fprint(c, plain("200 OK", map[bool]string{true: echo}[n.requests.Load() == 1], "out"))
	})
	f, spec := served(t, url)
	if done, err := f.run(spec); err != nil || done.Result != "ok" {
		t.Fatalf("the first ended as %+v, %v", done, err)
	}
	if done, err := f.run(spec); !errors.Is(err, jobexec.ErrOutcomeUnknown) && n.connections.Load() == 1 {
		t.Errorf("the second ended as %+v, %v", done, err)
	}
	st := f.standing()
	check.Equal(t, st.Ready, 0, "its connection is kept: %+v", st)
}

// The server closes an idle connection at the very moment when the next request comes: nobody knows
// whether it took that, and it is not sent again.
func TestARequestThatMeetsAClosingConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} {
		var n counted
		url := n.serve(t, func(c net.Conn, _ *bufio.Reader) {
			if n.requests.Load()%2 == 1 {
				fmt.Fprint(c, plain("200 OK", echo, "out"))
				return
			}
			if reset {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		})
		f, spec := served(t, url)
		for range 20 {
			if done, err := f.run(spec); err != nil || done.Result != "ok" {
				t.Fatalf("it ended as %+v, %v", done, err)
			}
			if done, err := f.run(spec); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
				t.Fatalf("it ended as %+v, %v", done, err)
			}
		}
		check.Equal(t, n.requests.Load(), 40, "reset %t: 40 jobs were … requests", reset)
	}
}

// A server that closes idle connections, or says that they were idle for too long, loses no request.
func TestAConnectionThatWasClosedWhileIdleIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"closed": "", "with a word": plain("408 Request Timeout", "Connection: close\r\n", "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{})
			var n counted
			url := n.serve(t, func(c net.Conn, _ *bufio.Reader) {
				fmt.Fprint(c, plain("200 OK", echo, "out"))
				fmt.Fprint(c, last)
				c.Close()
				closed <- struct{}{}
			})
			f, spec := served(t, url)
			for range 20 {
				done, err := f.run(spec)
				if err != nil || done.Result != "ok" {
					t.Fatalf("it ended as %+v, %v", done, err)
				}
				<-closed
				f.closedIdle()
			}
			check.Equal(t, n.requests.Load(), 20, "20 jobs were … requests")
		})
	}
}

// closedIdle waits until this side knows that no idle connection is usable.
func (f *fixture) closedIdle() {
	s := f.services["mail"]
	for usable := true; usable; runtime.Gosched() {
		usable = false
		s.mu.Lock()
		for _, c := range s.idle {
			usable = usable || c.used && c.usable()
		}
		s.mu.Unlock()
	}
}

// A connection from before that is closed while the start is journalled is replaced: nothing was sent.
func TestAConnectionThatIsClosedBeforeItsRequestIsReplaced(t *testing.T) {
	t.Parallel()
	accepted := make(chan net.Conn, 10)
	url := raw(t, func(c net.Conn) {
		accepted <- c
		r := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			fmt.Fprint(c, plain("200 OK", echo, "out"))
		}
	})
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: url}
	s := f.newService("mail", of)
	defer s.close()
	f.services["mail"] = s
	must.Get(f.run(specOf(of)))(t)
	c := must.Get(s.take(context.Background()))(t)
	c.used = true // it is one from before, however long the machine stood still
	made := s.standing().Boots
	for range made {
		(<-accepted).Close()
	}
	for c.usable() {
		runtime.Gosched()
	}
	renewed, err := s.renew(context.Background(), c)
	if err != nil || renewed == c || !renewed.usable() {
		t.Fatalf("it was renewed by %+v, %v", renewed, err)
	}
	s.put(renewed, true)
	if st := s.standing(); st.Busy != 0 || st.Ready != 1 || st.Boots != made+1 || st.Unready != "" {
		t.Errorf("its standing is %+v", st)
	}
}

func TestAnIdleConnectionIsClosedSoon(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	url := raw(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		close(gone)
	})
	f, _ := served(t, url)
	wait(t, "closed by the client", gone)
	for f.standing().Processes != 0 {
		runtime.Gosched()
	}
}
