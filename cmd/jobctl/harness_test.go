package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// daemon is a server that answers each type of request with what the test says,
// and keeps what it was asked.
type daemon struct {
	port string

	mu   sync.Mutex
	data []string
}

// startDaemon starts a daemon; an answer that is an error is told as one.
func startDaemon(t *testing.T, password string, answers map[string]any) *daemon {
	t.Helper()
	d := &daemon{}
	handlers := map[string]jobnet.Handler{}
	for typ, answer := range answers {
		handlers[typ] = func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			d.mu.Lock()
			d.data = append(d.data, typ+" "+string(request.Data))
			d.mu.Unlock()
			if err, failed := answer.(error); failed {
				return nil, err
			}
			return answer, nil
		}
	}
	d.port = listen(t, jobnet.ServerConfig{Password: password, Handlers: handlers})
	return d
}

// startTurns starts a daemon that answers one type of request as it is asked, one after the other.
func startTurns(t *testing.T, answers map[string]any, typ string, answer func(data string) any) *daemon {
	t.Helper()
	d := &daemon{}
	handlers := map[string]jobnet.Handler{}
	for typ, answer := range answers {
		handlers[typ] = func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return answer, nil }
	}
	handlers[typ] = func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return answer(string(request.Data)), nil
	}
	d.port = listen(t, jobnet.ServerConfig{Handlers: handlers})
	return d
}

// listen serves on a free port until the test ends.
func listen(t *testing.T, config jobnet.ServerConfig) (port string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	serveOn(t, listener, config)
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// serveOn serves on a listener until the test ends.
func serveOn(t *testing.T, listener net.Listener, config jobnet.ServerConfig) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := jobnet.NewServer(config)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		check.Do(t, <-ended, "serve")
		expired, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		check.Do(t, server.Shutdown(expired), "shutdown")
	})
}

// asked is what the daemon was asked, as "type data".
func (d *daemon) asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data
}

// output is what a run of jobctl left behind.
type output struct {
	code     int
	out, err string
}

// jobctl runs the program as a shell would, with its own surroundings.
type jobctl struct {
	stdin    string
	environ  []string
	terminal bool          // stdout and stderr are one
	columns  int           // how wide it is; 0: nobody knows
	patience time.Duration // 0: as ever
	sockets  string        // the folder of the daemons' sockets
}

func (j jobctl) run(t *testing.T, args ...string) output {
	t.Helper()
	var out, errs strings.Builder
	code := shell(t.Context(), args, surroundings{
		environ: j.environ, in: strings.NewReader(j.stdin), out: &out, err: &errs,
		terminal: j.terminal, errTerminal: j.terminal, width: func() int { return j.columns }, patience: j.patience, sockets: j.sockets,
		now:      func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) },
		location: time.UTC,
	})
	return output{code: code, out: out.String(), err: errs.String()}
}

// expect runs jobctl against the daemon and compares everything that it left behind.
func (j jobctl) expect(t *testing.T, d *daemon, want output, args ...string) {
	t.Helper()
	got := j.run(t, append([]string{"--port", d.port}, args...)...)
	got.err = strings.ReplaceAll(got.err, d.port, "PORT")
	if got != want {
		t.Errorf("jobctl %s\n got exit code %d, stdout:\n%s\nstderr:\n%s\nwant exit code %d, stdout:\n%s\nstderr:\n%s",
			strings.Join(args, " "), got.code, got.out, got.err, want.code, want.out, want.err)
	}
}

// sameJSON compares two JSON texts by what they mean.
func sameJSON(t *testing.T, got, want string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{got, want} {
		if text == "" {
			continue
		}
		must.Do(t, json.Unmarshal([]byte(text), &values[i]), "%q", text)
	}
	a, _ := json.Marshal(values[0])
	b, _ := json.Marshal(values[1])
	return string(a) == string(b)
}
