package request

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/store/storetest/check"
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
	check.Equal(t, cmp.Diff(want, params), "")
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
	for range 20 {
		got := must.Get(f.run(spec))(t)
		must.Equal(t, got.Result, "ok", "it ended as %+v", got)
		if s := f.standing(); s.Processes != 0 || s.Ready != 0 {
			t.Errorf("after a job there is %+v", s)
		}
	}
	if s := f.standing(); s.Boots != 21 || s.Jobs != 20 {
		t.Errorf("after 20 jobs it stands so: %+v", s)
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
	check.Equal(t, p.Started().Address, path, "its address is")
	p.Proceed()
	if done, err := f.outcome(p); err != nil || done.Result != "ok" {
		t.Errorf("it ended as %+v, %v", done, err)
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "jobd-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
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
		_, err := f.outcome(f.start(fastcgiSpec(of)))
		if refused(err) == nil || refused(err).Short || err.Error() != want {
			t.Errorf("%+v ended as %v, not %s", of, err, want)
		}
	}
}

func TestWhatAScriptSaysMeans(t *testing.T) {
	t.Parallel()
	const missing = "there is no Jobd-Exit-Code header: the script did not end, or did not send it"
	const headless = "the script ended without a valid head"
	fails := func(code int, err string, of said) said {
		of.Result, of.Code, of.Err = "fail", code, err
		return of
	}
	// Of what a script has said that did not come to its end, what came is kept, each where it belongs.
	const closed = "the connection was closed"
	unended := func(out, err, why string) said {
		return said{Code: -1, Out: out, Err: err, Unknown: "the request did not end: " + why}
	}
	for name, c := range map[string]struct {
		answer string
		want   said
	}{
		"ok":                      {out(done + "\r\nout"), said{Result: "ok", Out: "out"}},
		"ok, by LF":               {out("Jobd-Exit-Code: 0\n\nout"), said{Result: "ok", Out: "out"}},
		"ok, and says so":         {out("Status: 201 Made\r\n" + done + "\r\nout"), said{Result: "ok", Out: "out"}},
		"ok, in many pieces":      {piece(toldOut, "Jobd-Ex", 0) + piece(toldErr, "e", 1) + piece(toldOut, "it-Code: 0\r\n\r", 9) + piece(toldOut, "\no", 0) + piece(toldOut, "ut", 0) + piece(toldErr, "rr", 0) + finished(0, 0), said{Result: "ok", Out: "out", Err: "err"}},
		"ok, and no end of out":   {piece(toldOut, done+"\r\nout", 0) + finished(0, 0), said{Result: "ok", Out: "out"}},
		"ok, whatever the app is": {piece(toldOut, done+"\r\n", 0) + finished(9, 0), said{Result: "ok"}},
		"no code":                 {out("X: y\r\n\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: missing})},
		"no header at all":        {out("\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: missing})},
		"no code, a status":       {out("Status: 204 No Content\r\n\r\n"), fails(2, "Status: 204 No Content\n", said{Note: missing})},
		"no code, an app's":       {piece(toldOut, "X: y\r\n\r\nwhy", 0) + finished(255, 0), fails(255, "Status: 200 OK\nwhy\n", said{Note: missing})},
		"no code, a strange app":  {piece(toldOut, "X: y\r\n\r\n", 0) + finished(256, 0), fails(2, "Status: 200 OK\n", said{Note: missing})},
		"7":                       {out("Jobd-Exit-Code: 7\r\n\r\nwhy"), fails(7, "Status: 200 OK\nwhy", said{})},
		"a code that is none":     {out("Jobd-Exit-Code: ok\r\n\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: `Jobd-Exit-Code "ok" is not an exit code: 0 to 255`})},
		"two codes":               {out(done + done + "\r\nwhy"), fails(2, "Status: 200 OK\nwhy\n", said{Note: `Jobd-Exit-Code "0, 0" is not an exit code: 0 to 255`})},
		"stderr before the body":  {piece(toldErr, "log", 0) + out("Jobd-Exit-Code: 7\r\n\r\nwhy"), fails(7, "Status: 200 OK\nwhy\nlog", said{})},
		"500":                     {out("Status: 500 No\r\n\r\nwhy"), fails(5, "Status: 500 No\nwhy", said{})},
		"500, code 0":             {out("Status: 500 No\r\n" + done + "\r\nwhy"), fails(5, "Status: 500 No\nwhy", said{})},
		"500, code 9":             {out("Status: 500 No\r\nJobd-Exit-Code: 9\r\n\r\nwhy"), fails(9, "Status: 500 No\nwhy", said{})},
		"404":                     {out("Status: 404 Not Found\r\n\r\nwhy"), fails(4, "Status: 404 Not Found\nwhy", said{Final: true})},
		"404, code 0":             {out("Status: 404\r\n" + done + "\r\n"), fails(4, "Status: 404\n", said{Final: true})},
		"429":                     {out("Status: 429 Later\r\nRetry-After: 9\r\n\r\nwhy"), fails(4, "Status: 429 Later\nwhy", said{RetryAfter: 9})},
		"503, code 0":             {out("Status: 503 Later\r\nRetry-After: 9\r\n" + done + "\r\n"), fails(5, "Status: 503 Later\n", said{RetryAfter: 9})},
		"a location":              {out("Location: /x\r\n" + done + "\r\n"), fails(3, "Status: 302 Found\n", said{Final: true})},
		"nothing":                 {finished(0, 0), fails(5, "Status: none\n", said{Note: headless})},
		"stderr only":             {piece(toldErr, "err", 0) + finished(0, 0), fails(5, "Status: none\nerr\n", said{Note: headless})},
		"no empty line":           {out("Jobd-Exit-Code: 0\r\n"), fails(5, "Status: none\nJobd-Exit-Code: 0\r\n", said{Note: headless})},
		"no head":                 {out("hello\n\nworld"), fails(5, "Status: none\nhello\n\nworld\n", said{Note: headless})},
		"a status that is none":   {out("Status: fine\r\n" + done + "\r\nout"), fails(5, "Status: none\nStatus: fine\r\n"+done+"\r\nout\n", said{Note: headless})},
		"a status beyond all":     {out("Status: 600 x\r\n\r\n"), fails(5, "Status: none\nStatus: 600 x\r\n\r\n", said{Note: headless})},
		"overloaded":              {finished(0, 2), fails(5, "Status: 503 FCGI_OVERLOADED\n", said{Note: "the FastCGI server has refused the request"})},
		"refused after all":       {piece(toldOut, done+"\r\nout", 0) + finished(0, 9), fails(5, "Status: 503 protocol status 9\nout\n", said{Note: "the FastCGI server has refused the request"})},
		"502":                     {out("Status: 502 Bad\r\n\r\n"), fails(5, "Status: 502 Bad\n", said{Unknown: "Status: 502 Bad: the service behind it may have had the request"})},
		"504, code 0":             {out("Status: 504 Late\r\n" + done + "\r\n"), fails(5, "Status: 504 Late\n", said{Unknown: "Status: 504 Late: the service behind it may have had the request"})},
		"504, code 3":             {out("Status: 504 Late\r\nJobd-Exit-Code: 3\r\n\r\n"), fails(3, "Status: 504 Late\n", said{})},
		"no FastCGI":              {"HTTP/1.1 400 Bad Request\r\n\r\n", unended("", "", "the answer is not FastCGI: a record of version 72")},
		"a short end":             {piece(toldOut, done+"\r\n", 0) + piece(3, "", 0), unended("", "", "the answer is not FastCGI: an end of the request with 0 bytes")},
		"no word":                 {"", unended("", "", closed)},
		"cut in its output":       {piece(toldErr, "log", 0) + piece(toldOut, done+"\r\nout", 0) + piece(toldOut, "more", 0)[:10], unended("outmo", "log", closed)},
		"cut in its stderr":       {piece(toldErr, "log", 1)[:10], unended("", "lo", closed)},
		"cut in its head":         {piece(toldOut, "Status: 500 No\r\n", 0), unended("Status: 500 No\r\n", "", closed)},
		"cut, no text":            {piece(toldOut, "X: y\r\n\r\n\x00\xff", 0), unended("\x00\xff", "", closed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := saidOf(newFixture(t).run(fastcgiSpec(telling(t, c.answer))))
			if c.want.Result == "ok" {
				c.want.Code = 0
			}
			check.Equal(t, cmp.Diff(c.want, got), "")
		})
	}
}

func TestOutputOfScriptsIsKeptAsFarAsItMay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60_000)
	body := strings.Repeat(piece(toldOut, long, 0), 40) + strings.Repeat(piece(toldErr, long, 0), 50)
	for head, want := range map[string]struct {
		out, err         int64
		keptOut, keptErr int
	}{
		done + "\r\n":            {2_400_000, 3_000_000, 1000, 1000},
		"Status: 500 No\r\n\r\n": {0, int64(len("Status: 500 No\n") + 5_400_000), 0, 1000},
	} {
		spec := fastcgiSpec(telling(t, piece(toldOut, head, 0)+body+finished(0, 0)))
		spec.MaxOutput = 1000
		got, err := newFixture(t).run(spec)
		if err != nil || got.Stdout.Size != want.out || got.Stderr.Size != want.err || len(got.Stdout.Kept) != want.keptOut || len(got.Stderr.Kept) != want.keptErr {
			t.Errorf("%q: %s, %d of %d bytes and %d of %d, %v", head, got.Result, len(got.Stdout.Kept), got.Stdout.Size, len(got.Stderr.Kept), got.Stderr.Size, err)
		}
	}
	head := strings.Repeat("X-Long: "+long[:8000]+"\r\n", 50)
	got, err := newFixture(t).run(fastcgiSpec(telling(t, strings.Repeat(piece(toldOut, head[:len(head)/10], 0), 10)+piece(toldOut, done+"\r\n", 0)+finished(0, 0))))
	if err != nil || got.Result != "fail" || !strings.Contains(got.Note, "without a valid head") || got.Stderr.Size < int64(len(head)) {
		t.Errorf("a head of %d bytes ended as %s, %q, %d bytes, %v", len(head), got.Result, got.Note, got.Stderr.Size, err)
	}
}

// Answers of HTTP and FastCGI that tell where they end. Where any part of one is missing, nobody knows how
// the job ended: the server closes the connection, or resets it, or says nothing more until the job is
// cancelled.
func TestAnAnswerThatEndsOrStallsAtAnyByteIsUnknown(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]string{
		"with a length": plain("200 OK", "", "all is well"),
		"in pieces":     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nall i\r\n4\r\ns we\r\n0\r\nX: y\r\n\r\n",
		"of a failure":  plain("500 No", "Jobd-Exit-Code: 9\r\n", "why"),
		"for good":      plain("404 No", "", "gone"),
		"for later":     plain("429 Later", "Retry-After: 3\r\n", "busy"),

		"script":                   piece(toldErr, "err", 2) + piece(toldOut, done+"\r\nou", 5) + piece(toldOut, "t", 0) + piece(toldOut, "", 0) + finished(0, 0),
		"script of a failure":      out("Status: 500 No\r\nJobd-Exit-Code: 9\r\n\r\nwhy"),
		"script for good":          out("Status: 404 No\r\n\r\n"),
		"script that is refused":   finished(0, 2),
		"script with a padded end": piece(toldOut, done+"\r\n", 0) + piece(toldEnd, "\x00\x00\x00\x00\x00\x00\x00\x00", 8),
	} {
		for _, way := range []string{"ends", "is reset", "stalls"} {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				var cut, requests atomic.Int64
				stalls := make(chan struct{})
				answer := func(c net.Conn) {
					requests.Add(1)
					_, _ = io.WriteString(c, whole[:cut.Load()])
					switch way {
					case "is reset":
						_ = c.(*net.TCPConn).SetLinger(0)
					case "stalls":
						stalls <- struct{}{}
						_, _ = c.Read(make([]byte, 1)) // until the other side gives up
					}
				}
				spec := fastcgiSpec(scripted(t, func(c net.Conn, _ string) { answer(c) }))
				if !strings.HasPrefix(name, "script") {
					spec = specOf(jobexec.Service{Mode: jobexec.ModeHTTP, URL: raw(t, func(c net.Conn) {
						if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
							answer(c)
						}
					})})
				}
				f := newFixture(t)
				for n := range len(whole) {
					cut.Store(int64(n))
					p := f.sent(spec)
					if way == "stalls" {
						wait(t, "stalls", stalls)
						check.Do(t, p.Signal(int(unix.SIGTERM)), "SIGTERM at byte %d", n)
					}
					done, err := f.outcome(p)
					if !errors.Is(err, jobexec.ErrOutcomeUnknown) || way == "stalls" && !strings.Contains(err.Error(), "cancelled by SIGTERM") {
						t.Errorf("of %d bytes it ended as %+v, %v", n, done, err)
					}
				}
				check.Equal(t, requests.Load(), int64(len(whole)), "%d jobs were … requests", len(whole))
				if cut.Store(int64(len(whole))); way != "ends" {
					return // what was not read yet is lost with a reset
				}
				if done, err := f.run(spec); err != nil {
					t.Errorf("the whole answer ended as %+v, %v", done, err)
				}
			})
		}
	}
}
