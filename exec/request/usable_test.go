package request

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// dialled is a connection to a server that says something to each, and closes it where the test wants
// that.
func dialled(t *testing.T, says string, closes bool) *connection {
	t.Helper()
	url := raw(t, func(c net.Conn) {
		fmt.Fprint(c, says)
		if !closes {
			_, _ = io.Copy(io.Discard, c)
		}
	})
	made := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	c := connected(made, "")
	c.since = time.Now()
	t.Cleanup(c.drop)
	return c
}

func TestWhichConnectionsAreUsable(t *testing.T) {
	t.Parallel()
	silent := dialled(t, "", false)
	if err := silent.look(); err != nil || !silent.usable() {
		t.Errorf("one that says nothing is not usable: %v", err)
	}
	silent.since = time.Now().Add(-idleFor)
	if silent.usable() {
		t.Error("an old one is usable")
	}
	for name, c := range map[string]*connection{"speaks": dialled(t, "x", false), "closes": dialled(t, "", true)} {
		for c.usable() {
			c.since = time.Now() // it is not for its age that it becomes unusable
			runtime.Gosched()
		}
		if err := c.look(); !errors.Is(err, errSudden) {
			t.Errorf("one that %s: %v", name, err)
		}
	}
	read := dialled(t, "xy", false)
	must.Get(read.reader.ReadByte())(t)
	must.Get(read.reader.Peek(1))(t)
	if read.since = time.Now(); read.usable() {
		t.Error("one of which something was read that nobody had asked for is usable")
	}
}

// The end of TLS comes as data, before that of the connection.
func TestAnIdleConnectionThatEndsItsTLSIsNotUsed(t *testing.T) {
	t.Parallel()
	good, roots := certificate(t, "127.0.0.1", time.Now().Add(24*time.Hour))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ended := make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, out, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(out, plain("200 OK", "", "out"))
			out.Flush()
			_ = c.(*tls.Conn).CloseWrite() // the client may have gone
			ended <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: version, MinVersion: version}
		server.StartTLS()
		t.Cleanup(server.Close)
		f, spec := trusting(t, server.URL, roots)
		for range 10 {
			if done, err := f.run(spec); err != nil || done.Result != "ok" {
				t.Fatalf("%s: it ended as %+v, %v", tls.VersionName(version), done, err)
			}
			<-ended
			f.closedIdle()
		}
	}
}

// broke is a protocol of a host that has nothing left to make connections of.
type broke struct{ httpService }

func (broke) dial(context.Context) (*connection, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
}

func TestAHostThatLacksSomethingDoesNotMakeAServiceUnable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://198.51.100.1/"}
	s := newService("mail", of, &broke{}, f.report)
	defer s.close()
	f.services["mail"] = s
	done, err := f.run(specOf(of))
	if refused(err) == nil || !refused(err).Short || !strings.Contains(refused(err).Why, "too many open files") {
		t.Errorf("it ended as %+v, %v", done, err)
	}
	if st := f.standing(); st.Unready != "" {
		t.Errorf("its standing is %+v", st)
	}
}
