package request

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
)

// silent is a server that takes requests and never answers.
func silent(t *testing.T) (url string, taken chan struct{}) {
	t.Helper()
	taken = make(chan struct{}, 100)
	return raw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err == nil {
			taken <- struct{}{}
			_, _ = r.ReadByte() // until the other side gives up
		}
	}), taken
}

func TestASignalCancelsARequest(t *testing.T) {
	t.Parallel()
	url, taken := silent(t)
	for signal, name := range map[unix.Signal]string{unix.SIGTERM: "SIGTERM", unix.SIGINT: "SIGINT", unix.SIGKILL: "SIGKILL"} {
		f := newFixture(t)
		p := f.start(specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url}))
		wait(t, "begun", p.Begun())
		p.Proceed()
		wait(t, "taken", taken)
		for _, other := range []unix.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGSTOP, unix.SIGCONT, 64} {
			if err := p.Signal(int(other)); !errors.Is(err, unix.EINVAL) {
				t.Errorf("signal %d: %v", other, err)
			}
		}
		if err := p.Signal(0); err != nil {
			t.Errorf("a look at it: %v", err)
		}
		select {
		case <-p.Ended():
			t.Fatal("it has ended by that")
		default:
		}
		if err := p.Signal(int(signal)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wait(t, "ended", p.Ended())
		done, err := p.Outcome()
		want := "it was cancelled by " + name + " while the service had its request: nobody can tell how it ended"
		if !errors.Is(err, jobexec.ErrOutcomeUnknown) || err.Error() != want || done.Elapsed <= 0 {
			t.Errorf("it ended as %+v, %v", done, err)
		}
		if err := p.Signal(int(signal)); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s after its end: %v", name, err)
		}
	}
}

func TestARequestThatIsCancelledBeforeItIsSentWasNeverSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	f, spec := served(t, url)
	p := f.start(spec)
	wait(t, "begun", p.Begun())
	if err := p.Signal(int(unix.SIGTERM)); err != nil {
		t.Error(err)
	}
	wait(t, "ended", p.Ended())
	done, err := p.Outcome()
	if err != nil || done.Result != "fail" || done.Signal != "SIGTERM" || done.Code != nil || done.Reason != "it was cancelled before its request was sent" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	p.Proceed() // does nothing any more
	if _, err := f.run(spec); err != nil || requests.Load() != 1 {
		t.Errorf("two jobs, of which one was cancelled, were %d requests, %v", requests.Load(), err)
	}
}

// nobody dials, for as long as it may.
type nobody struct{ httpService }

func (nobody) dial(ctx context.Context) (*connection, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("dial: %w", ctx.Err())
}

func TestConnectingIsBoundedAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://198.51.100.1/", Dial: time.Hour}
	s := newService("mail", of, &nobody{}, f.report)
	defer s.close()
	f.services["mail"] = s
	p := f.start(specOf(of))
	if err := p.Signal(int(unix.SIGKILL)); err != nil {
		t.Error(err)
	}
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); err != nil || done.Signal != "SIGKILL" || p.Started().Known() {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	if st := f.standing(); st.Unready != "" {
		t.Errorf("of a job that was cancelled the service is unable: %+v", st)
	}
	s.of.Dial = time.Millisecond
	p = f.start(specOf(s.of))
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); refused(err) == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}

func TestARequestThatIsNotAnsweredInTimeIsUnknown(t *testing.T) {
	t.Parallel()
	slow := raw(t, func(c net.Conn) { // it says a byte now and then, for ever
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		for {
			if _, err := fmt.Fprint(c, "x"); err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = r.ReadByte()
		}
	})
	never, _ := silent(t)
	for name, url := range map[string]string{"never": never, "slow": slow} {
		f := newFixture(t)
		spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url})
		spec.Timeout = 100 * time.Millisecond
		done, err := f.run(spec)
		want := "the service did not answer within its timeout of 100ms: nobody can tell how it ended"
		if !errors.Is(err, jobexec.ErrOutcomeUnknown) || err.Error() != want || done.Elapsed < 100_000 {
			t.Errorf("%s: it ended as %+v, %v", name, done, err)
		}
	}
}

// A request that is cancelled while it may be sent as well is not sent: the cancellation came before
// anything was written.
func TestARequestThatIsCancelledAndMayBeSentIsNotSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	f, spec := served(t, serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	for range 50 {
		p := f.start(spec).(*process)
		wait(t, "begun", p.Begun())
		p.cancel(&cancelledError{unix.SIGTERM})
		p.Proceed()
		wait(t, "ended", p.Ended())
		if done, err := p.Outcome(); err != nil || done.Signal != "SIGTERM" || requests.Load() != 0 {
			t.Fatalf("it ended as %+v, %v, after %d requests", done, err, requests.Load())
		}
	}
}

// A request is taken back while its connection is being made: it was not started, and nothing is wrong
// with its service. One that has its connection is not.
func TestARequestIsTakenBackWhileItConnects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://198.51.100.1/", Dial: time.Hour}
	s := newService("mail", of, &nobody{}, f.report)
	defer s.close()
	f.services["mail"] = s
	p := f.start(specOf(of)).(*process)
	p.Withdraw()
	wait(t, "ended", p.Ended())
	if _, err := p.Outcome(); refused(err) == nil || !refused(err).Short || err.Error() != "it was taken back while it waited for its connection" || p.Started().Known() {
		t.Errorf("it ended with %v", err)
	}
	if st := f.standing(); st.Unready != "" {
		t.Errorf("the service is unable: %+v", st)
	}
	g, spec := served(t, serve(t, func(http.ResponseWriter, *http.Request) {}))
	p = g.start(spec).(*process)
	wait(t, "begun", p.Begun())
	p.Withdraw()
	p.Proceed()
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); err != nil || done.Result != "ok" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}
