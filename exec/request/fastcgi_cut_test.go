package request

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
)

// scriptedWholes are answers of which nothing may be missing.
var scriptedWholes = map[string]string{
	"ok":                    piece(toldErr, "err", 2) + piece(toldOut, done+"\r\nou", 5) + piece(toldOut, "t", 0) + piece(toldOut, "", 0) + finished(0, 0),
	"a failure":             out("Status: 500 No\r\nJobd-Exit-Code: 9\r\n\r\nwhy"),
	"for good":              out("Status: 404 No\r\n\r\n"),
	"a refusal":             finished(0, 2),
	"an end that is padded": piece(toldOut, done+"\r\n", 0) + piece(toldEnd, "\x00\x00\x00\x00\x00\x00\x00\x00", 8),
}

func TestAScriptThatIsCutAtEachByteIsUnknown(t *testing.T) {
	t.Parallel()
	for name, whole := range scriptedWholes {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reset %t", name, reset), func(t *testing.T) {
				t.Parallel()
				var cut, requests atomic.Int64
				service := scripted(t, func(c net.Conn, _ string) {
					requests.Add(1)
					_, _ = io.WriteString(c, whole[:cut.Load()])
					if reset {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
				})
				f := newFixture(t)
				for n := range len(whole) {
					cut.Store(int64(n))
					if done, err := f.run(fastcgiSpec(service)); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
						t.Errorf("of %d bytes it ended as %+v, %v", n, done, err)
					}
				}
				if got := requests.Load(); got != int64(len(whole)) {
					t.Errorf("%d jobs were %d requests", len(whole), got)
				}
				if cut.Store(int64(len(whole))); reset {
					return // what was not read yet is lost with a reset
				}
				if done, err := f.run(fastcgiSpec(service)); err != nil {
					t.Errorf("the whole answer ended as %+v, %v", done, err)
				}
			})
		}
	}
}

func TestAScriptThatStallsAtEachByteIsUnknownWhenItIsCancelled(t *testing.T) {
	t.Parallel()
	for name, whole := range scriptedWholes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cut atomic.Int64
			stalls := make(chan struct{})
			service := scripted(t, func(c net.Conn, _ string) {
				_, _ = io.WriteString(c, whole[:cut.Load()])
				stalls <- struct{}{}
				_, _ = c.Read(make([]byte, 1)) // until the other side gives up
			})
			f := newFixture(t)
			for n := range len(whole) {
				cut.Store(int64(n))
				p := f.start(fastcgiSpec(service))
				wait(t, "begun", p.Begun())
				p.Proceed()
				wait(t, "stalls", stalls)
				if err := p.Signal(int(unix.SIGTERM)); err != nil {
					t.Errorf("SIGTERM at byte %d: %v", n, err)
				}
				wait(t, "ended", p.Ended())
				if done, err := p.Outcome(); !errors.Is(err, jobexec.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "cancelled by SIGTERM") {
					t.Errorf("at byte %d it ended as %+v, %v", n, done, err)
				}
			}
		})
	}
}
