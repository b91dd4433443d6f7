package request

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
)

// wholes are answers that tell where they end. Where any part of one is missing, nobody knows how the
// job ended.
var wholes = map[string]string{
	"with a length": plain("200 OK", "", "all is well"),
	"in pieces":     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nall i\r\n4\r\ns we\r\n0\r\nX: y\r\n\r\n",
	"of a failure":  plain("500 No", "Jobd-Exit-Code: 9\r\n", "why"),
	"for good":      plain("404 No", "", "gone"),
	"for later":     plain("429 Later", "Retry-After: 3\r\n", "busy"),
}

func TestAnAnswerThatIsCutAtEachByteIsUnknown(t *testing.T) {
	t.Parallel()
	for name, whole := range wholes {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reset %t", name, reset), func(t *testing.T) {
				t.Parallel()
				var cut, requests atomic.Int64
				url := raw(t, func(c net.Conn) {
					if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
						return
					}
					requests.Add(1)
					_, _ = io.WriteString(c, whole[:cut.Load()])
					if reset {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
				})
				f := newFixture(t)
				spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url})
				for n := range len(whole) {
					cut.Store(int64(n))
					if done, err := f.run(spec); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
						t.Errorf("of %d bytes it ended as %+v, %v", n, done, err)
					}
				}
				if got := requests.Load(); got != int64(len(whole)) {
					t.Errorf("%d jobs were %d requests", len(whole), got)
				}
				if cut.Store(int64(len(whole))); reset {
					return // what was not read yet is lost with a reset
				}
				if done, err := f.run(spec); err != nil {
					t.Errorf("the whole answer ended as %+v, %v", done, err)
				}
			})
		}
	}
}

func TestAnAnswerThatStallsAtEachByteIsUnknownWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	for name, whole := range wholes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cut atomic.Int64
			stalls := make(chan struct{})
			url := raw(t, func(c net.Conn) {
				r := bufio.NewReader(c)
				if _, err := http.ReadRequest(r); err == nil {
					_, _ = io.WriteString(c, whole[:cut.Load()])
					stalls <- struct{}{}
					_, _ = r.ReadByte() // until the other side gives up
				}
			})
			f := newFixture(t)
			spec := specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: url})
			for n := range len(whole) {
				cut.Store(int64(n))
				p := f.start(spec)
				wait(t, "begun", p.Begun())
				p.Proceed()
				wait(t, "stalls", stalls)
				if err := p.Signal(int(unix.SIGTERM)); err != nil {
					t.Errorf("SIGTERM at byte %d: %v", n, err)
				}
				wait(t, "ended", p.Ended())
				if done, err := p.Outcome(); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
					t.Errorf("at byte %d it ended as %+v, %v", n, done, err)
				}
			}
		})
	}
}

func TestOfAnAnswerThatIsCutWhatCameIsKept(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]said{
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf": {Result: "ok", Out: "half", Unknown: "the answer was cut short: the connection was closed"},
		"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf": {Result: "fail", Code: 5, Err: "HTTP/1.1 500 No\nhalf", Unknown: "the answer was cut short: the connection was closed"},
	} {
		f := newFixture(t)
		if got := saidOf(f.run(specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: answering(t, answer)}))); got != want {
			t.Errorf("%q ended as %+v, not %+v", answer, got, want)
		}
	}
}
