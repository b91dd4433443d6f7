package request

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// quiet is the log of servers that are met by clients which refuse them.
var quiet = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hung is how long something may take on a machine that has much else to do.
const hung = 30 * time.Second

// fixture is a Requester with what it told.
type fixture struct {
	*Requester
	t         *testing.T
	standings chan jobexec.PoolStanding
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, standings: make(chan jobexec.PoolStanding, 1000)}
	f.Requester = New(Config{OnStanding: func(s jobexec.PoolStanding) { f.standings <- s }})
	t.Cleanup(func() { f.SetServices(nil) })
	return f
}

// served is a fixture with one target, mail, whose service is at a URL.
func served(t *testing.T, url string) (*fixture, jobexec.Spec) {
	t.Helper()
	f := newFixture(t)
	s := jobexec.Service{Mode: jobexec.ModeHTTP, URL: url}
	f.SetServices(map[string]jobexec.Service{"mail": s})
	return f, specOf(s)
}

func specOf(s jobexec.Service) jobexec.Spec {
	return jobexec.Spec{
		Mode: jobexec.ModeHTTP, Target: "mail", Job: 7, Attempt: 2, Token: "@abcdefghi", Service: s, MaxOutput: 1 << 20,
	}
}

// echo is the header by which a service says whose request it answers: that of specOf.
const echo = "Jobd-Claim: 7-2-@abcdefghi\r\n"

// serve serves a handler over plain HTTP, and gives its URL.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// wait waits until a channel is closed.
func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hung):
		t.Fatalf("%s: still waiting after %s", what, hung)
	}
}

// next waits until the service is told to be able, or unable.
func (f *fixture) next(able bool) jobexec.PoolStanding {
	f.t.Helper()
	late := time.After(hung)
	for {
		select {
		case s := <-f.standings:
			if (s.Unready == "") == able {
				return s
			}
		case <-late:
			f.t.Fatalf("that it is able (%t) was not told", able)
		}
	}
}

// standing is how the service stands now.
func (f *fixture) standing() jobexec.PoolStanding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.services["mail"].standing()
}

// start begins a job.
func (f *fixture) start(spec jobexec.Spec) jobexec.Held {
	f.t.Helper()
	p := must.Get(f.Start(spec))(f.t)
	return p.(jobexec.Held)
}

// sent begins a job, and has its request sent.
func (f *fixture) sent(spec jobexec.Spec) jobexec.Held {
	f.t.Helper()
	p := f.start(spec)
	wait(f.t, "begun", p.Begun())
	p.Proceed()
	return p
}

// outcome waits for the end of a job.
func (f *fixture) outcome(p jobexec.Process) (journal.Done, error) {
	f.t.Helper()
	wait(f.t, "ended", p.Ended())
	return p.Outcome()
}

// run runs a job to its end, as a worker does.
func (f *fixture) run(spec jobexec.Spec) (journal.Done, error) {
	f.t.Helper()
	return f.outcome(f.sent(spec))
}

// raw is a server that does with each connection what a function says, and closes it then.
func raw(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	return "http://" + rawOn(t, listener, handle)
}

func rawOn(t *testing.T, listener net.Listener, handle func(net.Conn)) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var handlers []chan struct{}
		for {
			c, err := listener.Accept()
			if err != nil {
				break
			}
			ended := make(chan struct{})
			handlers = append(handlers, ended)
			go func() {
				defer close(ended)
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				handle(c)
			}()
		}
		for _, h := range handlers {
			<-h
		}
	}()
	t.Cleanup(func() {
		stop()
		listener.Close()
		wait(t, "server ends", done)
	})
	return listener.Addr().String()
}
