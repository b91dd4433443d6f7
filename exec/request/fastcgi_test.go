package request

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

const (
	toldOut = 6
	toldErr = 7
	toldEnd = 3
)

// piece is a record as a server sends it.
func piece(of byte, content string, padding int) string {
	b := binary.BigEndian.AppendUint16([]byte{1, of, 0, 1}, uint16(len(content)))
	return string(append(b, byte(padding), 0)) + content + strings.Repeat("p", padding)
}

// finished is the end of a request, with the statuses of application and protocol.
func finished(app uint32, protocol byte) string {
	return piece(toldEnd, string(append(binary.BigEndian.AppendUint32(nil, app), protocol, 0, 0, 0)), 0)
}

// out is the answer of a script that has written a head and a body.
func out(text string) string { return piece(toldOut, text, 3) + piece(toldOut, "", 0) + finished(0, 0) }

// heard reads a request, up to the end of its stdin, and gives the bytes of its parameters.
func heard(r *bufio.Reader) (params string, err error) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return "", err
		}
		content := make([]byte, binary.BigEndian.Uint16(head[4:]))
		if _, err := io.ReadFull(r, content); err != nil {
			return "", err
		}
		if head[1] == 4 {
			params += string(content)
		}
		if head[1] == 5 && len(content) == 0 {
			return params, nil
		}
	}
}

// scripted is a FastCGI server that does with each request what a function says.
func scripted(t *testing.T, handle func(c net.Conn, params string)) jobexec.Service {
	t.Helper()
	url := raw(t, func(c net.Conn) {
		if params, err := heard(bufio.NewReader(c)); err == nil {
			handle(c, params)
		}
	})
	return jobexec.Service{Mode: jobexec.ModeFastCGI, Address: strings.TrimPrefix(url, "http://"), Script: "/srv/job.php"}
}

func telling(t *testing.T, text string) jobexec.Service {
	t.Helper()
	return scripted(t, func(c net.Conn, _ string) { _, _ = io.WriteString(c, text) })
}

func fastcgiSpec(s jobexec.Service) jobexec.Spec {
	spec := specOf(s)
	spec.Mode = jobexec.ModeFastCGI
	return spec
}

const done = "Jobd-Exit-Code: 0\r\n"

func TestWhatAScriptIsTold(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	spec := fastcgiSpec(scripted(t, func(c net.Conn, params string) {
		got <- params
		_, _ = io.WriteString(c, out(done+"\r\n"))
	}))
	spec.Target = "grüße"
	spec.Env = []string{"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "SECRET=x"}
	spec.Vars = []string{"JOBD_ATTEMPT=9", "JOBD_DEADLINE=1795377600", "JOBD_MAX_ATTEMPTS=3", "SCRIPT_FILENAME=/other", "HTTP_PROXY=x", "JOBD_EMPTY="}
	if done, err := newFixture(t).run(spec); err != nil || done.Result != "ok" {
		t.Fatalf("it ended as %+v, %v", done, err)
	}
	params := map[string]string{}
	for pairs := <-got; pairs != ""; {
		name, value := int(pairs[0]), int(pairs[1]) // none is longer than 127 bytes
		params[pairs[2:2+name]] = pairs[2+name : 2+name+value]
		pairs = pairs[2+name+value:]
	}
	want := map[string]string{
		"GATEWAY_INTERFACE": "CGI/1.1", "SERVER_SOFTWARE": "jobd", "SERVER_NAME": "jobd", "SERVER_PORT": "0",
		"SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "REQUEST_METHOD": "POST", "CONTENT_LENGTH": "0", "CONTENT_TYPE": "",
		"SCRIPT_FILENAME": "/srv/job.php", "SCRIPT_NAME": "/srv/job.php", "REQUEST_URI": "/srv/job.php?7", "QUERY_STRING": "7",
		"JOBD_ID": "7", "JOBD_ATTEMPT": "2", "JOBD_TARGET": "grüße", "JOBD_CLAIM": "7-2-@abcdefghi",
		"JOBD_DEADLINE": "1795377600", "JOBD_MAX_ATTEMPTS": "3", "JOBD_EMPTY": "",
		"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	if d := cmp.Diff(want, params); d != "" {
		t.Error(d)
	}
}

// Each request has a connection of its own, and none is kept that nothing is asked over.
func TestNoConnectionToAFastCGIServerIsKept(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int64
	url := raw(t, func(c net.Conn) {
		most.Store(max(most.Load(), open.Add(1)))
		r := bufio.NewReader(c)
		if _, err := heard(r); err == nil {
			_, _ = io.WriteString(c, out(done+"\r\n"))
			_, _ = r.ReadByte() // the other side closes it
		}
		open.Add(-1)
	})
	f := newFixture(t)
	spec := fastcgiSpec(jobexec.Service{Mode: jobexec.ModeFastCGI, Address: strings.TrimPrefix(url, "http://"), Script: "/x"})
	f.SetServices(map[string]jobexec.Service{"mail": spec.Service})
	f.next(true)
	if s := f.standing(); s.Processes != 0 || s.Mode != jobexec.ModeFastCGI {
		t.Errorf("before the first job there is %+v", s)
	}
	f.services["mail"].wait = time.Hour // as if it had been away
	for range 20 {
		if got, err := f.run(spec); err != nil || got.Result != "ok" {
			t.Fatalf("it ended as %+v, %v", got, err)
		}
		if s := f.standing(); s.Processes != 0 || s.Ready != 0 {
			t.Errorf("after a job there is %+v", s)
		}
	}
	if s := f.standing(); s.Boots != 21 || s.Jobs != 20 {
		t.Errorf("after 20 jobs it stands so: %+v", s)
	}
	if wait := f.services["mail"].wait; wait != 0 {
		t.Errorf("it has answered, and the next look at it would be in %s", wait)
	}
}

func TestARequestNamesTheSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "s")
	listener := must.Get(net.Listen("unix", path))(t)
	rawOn(t, listener, func(c net.Conn) {
		if _, err := heard(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, out(done+"\r\n"))
		}
	})
	f := newFixture(t)
	p := f.start(fastcgiSpec(jobexec.Service{Mode: jobexec.ModeFastCGI, Address: path, Script: "/x"}))
	wait(t, "begun", p.Begun())
	if got := p.Started().Address; got != path {
		t.Errorf("its address is %q", got)
	}
	p.Proceed()
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); err != nil || done.Result != "ok" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "jobd-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// full is a socket whose queue has no room for a connection; accept makes some.
func full(t *testing.T) (path string, accept func()) {
	t.Helper()
	path = filepath.Join(shortDir(t), "s")
	listener := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))(t)
	t.Cleanup(func() { unix.Close(listener) })
	must.Do(t, errors.Join(unix.Bind(listener, &unix.SockaddrUnix{Name: path}), unix.Listen(listener, 0)))
	for {
		c, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	return path, func() {
		fd, _, err := unix.Accept(listener)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
	}
}

// A queue that is full is a shortage: the job is not started, and the target goes on.
func TestAFullQueueIsAShortage(t *testing.T) {
	t.Parallel()
	path, accept := full(t)
	f := newFixture(t)
	of := jobexec.Service{Mode: jobexec.ModeFastCGI, Address: path, Script: "/x"}
	p := f.start(fastcgiSpec(of))
	wait(t, "ended", p.Ended())
	if _, err := p.Outcome(); refused(err) == nil || !refused(err).Short {
		t.Errorf("it ended as %v", err)
	}
	accept()
	p = f.start(fastcgiSpec(of))
	wait(t, "begun", p.Begun())
	if err := p.Signal(int(unix.SIGTERM)); err != nil {
		t.Error(err)
	}
	wait(t, "ended", p.Ended())
	if done, err := p.Outcome(); err != nil || done.Signal != "SIGTERM" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}

func TestAServerThatIsNotThereIsNotAsked(t *testing.T) {
	t.Parallel()
	stale := filepath.Join(shortDir(t), "s")
	listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: stale}))(t)
	listener.SetUnlinkOnClose(false)
	listener.Close()
	for of, want := range map[jobexec.Service]string{
		{Address: stale, Script: "/x"}:        "fastcgi:" + stale + ": dial unix " + stale + ": connect: connection refused",
		{Address: stale + "no", Script: "/x"}: "fastcgi:" + stale + "no: dial unix " + stale + "no: connect: no such file or directory",
	} {
		of.Mode = jobexec.ModeFastCGI
		f := newFixture(t)
		p, err := f.Start(fastcgiSpec(of))
		if err == nil {
			wait(t, "ended", p.Ended())
			_, err = p.Outcome()
		}
		if refused(err) == nil || refused(err).Short || err.Error() != want {
			t.Errorf("%+v ended as %v, not %s", of, err, want)
		}
	}
}
