package web

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/pulse"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// serve serves at an address until the test ends.
func serve(t *testing.T, at conf.HTTP, routes Routes) *Server {
	t.Helper()
	return serveTo(t, at, routes, nobodysOwn)
}

// nobodysOwn is who asks a daemon without principals and password.
var nobodysOwn = Who{Server: jobnet.NewServer(jobnet.ServerConfig{})}

func serveTo(t *testing.T, at conf.HTTP, routes Routes, who Who) *Server {
	t.Helper()
	s := must.Get(Listen(at, routes, who, slog.New(slog.DiscardHandler)))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		check.Do(t, errors.Join(<-ended, s.Close()))
	})
	return s
}

var anyPort = conf.HTTP{Network: "tcp", Address: "127.0.0.1:0"}

func routes(reasons ...api.NotReady) Routes {
	told := func() []api.NotReady { return reasons }
	return Routes{Program: "jobd", Health: told, Ready: told, Page: index("jobd"), Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "number 1")
	})}
}

// index stands in for the page.
func index(program string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s\n\n/metrics  numbers for Prometheus\n/healthz  whether the process is well\n/readyz   whether it may take work\n\nasked by %s\n",
			program, SessionOf(r.Context()).By())
	})
	return mux
}

func get(t *testing.T, address, path string, header ...string) (code int, body string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody))(t)
	if len(header) > 0 {
		request.Header.Set(header[0], header[1])
	}
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	content := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(content)
}

func TestWhatIsTold(t *testing.T) {
	t.Parallel()
	well := serve(t, anyPort, routes()).address()
	since := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	ill := serve(t, anyPort, routes(
		api.NotReady{What: "database", Why: "no route\nto host", Since: since}, api.NotReady{What: "name", Why: "taken"},
	)).address()
	for _, test := range []struct {
		address, path string
		code          int
		body          string
	}{
		{well, "/metrics", 200, "number 1\n"},
		{well, "/healthz", 200, "healthy\n"},
		{well, "/readyz", 200, "ready\n"},
		{well, "/nowhere", 404, "404 page not found\n"},
		{ill, "/metrics", 200, "number 1\n"},
		{ill, "/readyz", 503, "not ready\ndatabase since 2026-11-22T10:00:00Z: no route to host\nname: taken\n"},
		{ill, "/healthz", 503, "not healthy\ndatabase since 2026-11-22T10:00:00Z: no route to host\nname: taken\n"},
	} {
		if code, body := get(t, test.address, test.path); code != test.code || body != test.body {
			t.Errorf("%s: %d %q, want %d %q", test.path, code, body, test.code, test.body)
		}
	}
	for _, how := range [][]string{{"/readyz?format=json"}, {"/readyz", "Accept", "application/json"}} {
		code, body := get(t, ill, how[0], how[1:]...)
		var report readiness
		if err := json.Unmarshal([]byte(body), &report); err != nil || code != 503 || report.OK || report.PID != os.Getpid() ||
			len(report.Reasons) != 2 || !report.Reasons[0].Since.Equal(since) {
			t.Errorf("%v: %d %s, %v", how, code, body, err)
		}
	}
	if code, body := get(t, well, "/"); code != 200 || !strings.Contains(body, "/readyz") {
		t.Errorf("/: %d %q", code, body)
	}
	answer := must.Get(http.Post("http://"+well+"/metrics", "text/plain", strings.NewReader("x")))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST was answered with %s", answer.Status)
	}
	report, err := askReport(t.Context(), conf.HTTP{Network: "tcp", Address: well})
	if err != nil || !report.OK || report.Program != "jobd" {
		t.Errorf("%+v, %v", report, err)
	}
}

// A page in a browser on this host, whose server leads its own name here, reads no page of this server.
func TestAnotherHostsNameIsRefused(t *testing.T) {
	t.Parallel()
	own := must.Get(os.Hostname())(t)
	s := serve(t, conf.HTTP{Network: "tcp", Address: "127.0.0.1:0", Hosts: []string{"jobs.example"}}, routes()).address()
	for host, code := range map[string]int{
		"127.0.0.1:9180": 200, "[::1]:9180": 200, "::1": 200, "192.0.2.1": 200, "localhost": 200, "LocalHost:9180": 200,
		"jobs.example": 200, "Jobs.example:9180": 200, own: 200, strings.ToUpper(own) + ":9180": 200,
		"evil.example": 421, "127.0.0.1.evil.example:9180": 421, "localhost.evil.example": 421, own + ".evil.example": 421,
	} {
		for path, own := range map[string]int{"/": 200, "/other": 404, "/metrics": 0, "/healthz": 0, "/readyz?x": 0} {
			want := map[int]int{200: own, 421: 421}[code]
			if own == 0 { // whoever watches the daemon asks by any name
				want = 200
			}
			request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s+path, http.NoBody))(t)
			request.Host = host
			answer := must.Get(http.DefaultClient.Do(request))(t)
			if answer.Body.Close(); answer.StatusCode != want {
				t.Errorf("%s of host %q: %d, want %d", path, host, answer.StatusCode, want)
			}
		}
	}
	socket := filepath.Join(t.TempDir(), "http.sock")
	serve(t, conf.HTTP{Network: "unix", Address: socket}, routes())
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://jobd/", http.NoBody))(t)
	answer := must.Get(client.Do(request))(t)
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("by a unix socket: %s", answer.Status)
	}
}

// A socket that a killed daemon has left is replaced; one that is served, or anything else, is not.
func TestSocketsOfFormerRuns(t *testing.T) {
	t.Parallel()
	at := conf.HTTP{Network: "unix", Address: filepath.Join(t.TempDir(), "s")}
	left := must.Get(net.Listen("unix", at.Address))(t)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	serve(t, at, routes())
	info, err := os.Stat(at.Address)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if report, err := askReport(t.Context(), at); err != nil || !report.OK {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := listen(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket that is served: %v", err)
	}
	file := conf.HTTP{Network: "unix", Address: filepath.Join(t.TempDir(), "f")}
	must.Do(t, os.WriteFile(file.Address, []byte("mine"), 0o600))
	if _, err := listen(file); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a file: %v", err)
	}
	if content, _ := os.ReadFile(file.Address); string(content) != "mine" {
		t.Errorf("the file is now %q", content)
	}
}

// A path that somebody else has taken is that one's: a daemon that ends leaves it.
func TestAnothersSocketIsLeft(t *testing.T) {
	t.Parallel()
	at := conf.HTTP{Network: "unix", Address: filepath.Join(t.TempDir(), "s")}
	former := must.Get(listen(at))(t)
	must.Do(t, os.Remove(at.Address))
	next := must.Get(listen(at))(t)
	for range 2 {
		check.Do(t, former.Close())
	}
	must.Get(os.Lstat(at.Address))(t)
	check.Do(t, next.Close())
	if _, err := os.Lstat(at.Address); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its own is left behind: %v", err)
	}
}

// Whoever holds connections, silent or between requests, keeps nobody from an answer: each one more
// ends the oldest of them.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, anyPort, routes())
	var held []net.Conn
	for i := range mostLinks {
		conn := must.Get(net.Dial("tcp", s.address()))(t)
		defer conn.Close()
		held = append(held, conn)
		if i%2 == 0 {
			continue
		}
		must.Get(conn.Write([]byte("GET /readyz HTTP/1.1\r\nHost: jobd\r\n\r\n")))(t)
		must.Get(conn.Read(make([]byte, 1)))(t)
	}
	for range 5 {
		report, err := askReport(t.Context(), conf.HTTP{Network: "tcp", Address: s.address()})
		if err != nil || !report.OK {
			t.Fatalf("beside %d connections that are held: %+v, %v", mostLinks, report, err)
		}
	}
	_ = held[0].SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := held[0].Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest was held: %d bytes, %v", n, err)
	}
}

// Answers under way are not given up for somebody else: where there is nothing but those, one
// connection more is closed at once.
func TestAnswersUnderWayAreKept(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	told := routes()
	told.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-end
		fmt.Fprintln(w, "number 1")
	})
	s := serve(t, anyPort, told)
	answers := make(chan string, mostLinks)
	for range mostLinks {
		conn := must.Get(net.Dial("tcp", s.address()))(t)
		go func() {
			defer conn.Close()
			_, _ = conn.Write([]byte("GET /metrics HTTP/1.0\r\n\r\n"))
			answer, _ := io.ReadAll(conn)
			answers <- string(answer)
		}()
		<-begun
	}
	if report, err := askReport(t.Context(), conf.HTTP{Network: "tcp", Address: s.address()}); err == nil {
		t.Errorf("one more was answered: %+v", report)
	}
	close(end)
	for range mostLinks {
		if answer := <-answers; !strings.HasSuffix(answer, "\r\n\r\nnumber 1\n") {
			t.Errorf("answer %q", answer)
		}
	}
}

// Those who ask for much and read nothing hold no place that others need.
func TestWhoReadsNothingKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	const much = 8 << 20 // more than the system keeps for a reader
	begun := make(chan struct{}, 2*mostLinks)
	told := routes()
	told.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		_, _ = w.Write(make([]byte, much))
	})
	s := serve(t, anyPort, told)
	for range mostLinks {
		conn := must.Get(net.Dial("tcp", s.address()))(t)
		t.Cleanup(func() { conn.Close() })
		must.Get(io.WriteString(conn, "GET /metrics HTTP/1.0\r\n\r\n"))(t)
		<-begun
	}
	for range 10 {
		if code, body := get(t, s.address(), "/readyz"); code != 200 {
			t.Errorf("%d %s", code, body)
		}
	}
}

// Guesses that wait for their turn hold no place that others need.
func TestGuessesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	who := Who{Password: true, Server: jobnet.NewServer(jobnet.ServerConfig{Password: "s3cret"})}
	s := serveTo(t, anyPort, routes(), who)
	guess := func() net.Conn {
		conn := must.Get(net.Dial("tcp", s.address()))(t)
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n") // it may be closed for another
		return conn
	}
	must.Get(guess().Read(make([]byte, 1)))(t)
	for range 2 * mostLinks {
		guess()
	}
	for range 5 {
		if report, err := askReport(t.Context(), conf.HTTP{Network: "tcp", Address: s.address()}); err != nil || !report.OK {
			t.Fatalf("beside guesses: %+v, %v", report, err)
		}
	}
}

// Forms that don't come hold no place that others need.
func TestFormsThatDoNotComeKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := serve(t, anyPort, routes())
	for range mostLinks {
		conn := must.Get(net.Dial("tcp", s.address()))(t)
		defer conn.Close()
		// The server asks for the body when it begins to read it.
		must.Get(io.WriteString(conn, "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n"))(t)
		must.Get(conn.Read(make([]byte, 1)))(t)
	}
	for range 5 {
		if report, err := askReport(t.Context(), conf.HTTP{Network: "tcp", Address: s.address()}); err != nil || !report.OK {
			t.Fatalf("beside forms that do not come: %+v, %v", report, err)
		}
	}
}

// address is where a server listens, with the port that the system chose.
func (s *Server) address() string { return s.listener.Addr().String() }

// A loop that hangs in a piece of work makes the process ill; one that waits for something, for as
// long as it takes, does not.
func TestLoopsThatStandStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		beats := pulse.New(pulse.Config{})
		go func() { _ = beats.Run(ctx) }()
		hangs, waits := beats.Loop("turns"), beats.Loop("mirror")
		waits.Works()
		waits.Waits()
		why := Loops(beats)
		hangs.Works()
		if reasons := why(); len(reasons) > 0 {
			t.Errorf("at once: %+v", reasons)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if reasons := why(); len(reasons) != 1 || reasons[0].What != "loop turns" || reasons[0].Since.IsZero() {
			t.Errorf("later: %+v", reasons)
		}
		hangs.Waits()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if reasons := why(); len(reasons) > 0 {
			t.Errorf("when it goes on: %+v", reasons)
		}
		stop()
		synctest.Wait()
	})
}

// mostReport is how long a report may be.
const mostReport = 1 << 20

// askReport asks a daemon how it is, without TLS, or with where that is required.
func askReport(ctx context.Context, at conf.HTTP) (report readiness, err error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // nothing secret is said
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, at.Network, at.Address)
		},
	}}
	if report, err = ask(ctx, client, "http"); err != nil {
		report, err = ask(ctx, client, "https")
	}
	return report, err
}

func ask(ctx context.Context, client *http.Client, scheme string) (report readiness, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://jobd/healthz?format=json", http.NoBody)
	if err != nil {
		return report, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return report, err
	}
	defer answer.Body.Close()
	return report, json.NewDecoder(io.LimitReader(answer.Body, mostReport)).Decode(&report)
}
