package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// seenPages is an output that tells when it holds so many pages.
type seenPages struct {
	mu     sync.Mutex
	text   bytes.Buffer
	sign   string // that a page has
	wanted int
	enough func()
}

func (p *seenPages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b)
	if strings.Count(p.text.String(), p.sign) >= p.wanted {
		p.enough()
	}
	return len(b), nil
}

// watching runs jobctl until it has printed two pages, and is interrupted then.
func watching(t *testing.T, terminal bool, sign string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := func() { cancel(context.Canceled) }
	out := &seenPages{sign: sign, wanted: 2, enough: interrupt}
	var errs strings.Builder
	code := shell(ctx, args, surroundings{
		in: strings.NewReader(""), out: out, err: &errs, terminal: terminal,
		now: func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }, location: time.UTC,
	})
	return output{code, out.text.String(), errs.String()}
}

func TestWatchedPages(t *testing.T) {
	t.Parallel()
	worker := standingWorker(t)
	const page = `TARGET  WAITING  OLDEST  RUNNING  SLOTS  STARTED  ENDED  EMPTY IN
mail    10000+   3h0m    4        5      30       20     >8h20m
`
	for name, test := range map[string]struct {
		terminal bool
		args     string
		want     string
	}{
		"in a pipe": {false, "queue mail --watch", "2026-11-20 12:00:00.000000\n" + page + "\n2026-11-20 12:00:00.000000\n" + page},
		"in place":  {true, "status --watch", ""},
		"as JSON":   {false, "queue mail --watch --output=json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sign := "mail"
			if test.terminal {
				sign = "resident memory"
			}
			got := watching(t, test.terminal, sign, append([]string{"--port", worker.port}, strings.Fields(test.args)...)...)
			if got.code != 0 || got.err != "" || test.want != "" && got.out != test.want {
				t.Errorf("%+v, want\n%s", got, test.want)
			}
			if clears := strings.Count(got.out, "\x1b[H\x1b[2J"); (clears == 2) != test.terminal {
				t.Errorf("it is cleared %d times: %q", clears, got.out)
			}
			if name == "as JSON" && (strings.Count(got.out, "\n") != 2 || strings.Contains(got.out, "2026-11-20")) {
				t.Errorf("%q", got.out)
			}
		})
	}
}

// A daemon that is not there at first is an error, one that goes away is asked again.
func TestWatchingADaemonThatGoesAway(t *testing.T) {
	t.Parallel()
	if got := watching(t, false, "never", "--port", closedPort(t), "status", "--watch"); got.code != exit.Connect || got.out != "" {
		t.Errorf("%+v", got)
	}
	stop, port := stoppable(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &seenPages{sign: "resident memory", wanted: 1, enough: stop}
	gone := &seenPages{sign: "; trying again\n", wanted: 1, enough: func() {
		cancel(context.Canceled)
	}}
	code := shell(ctx, []string{"--port", port, "status", "--watch"}, surroundings{
		in: strings.NewReader(""), out: both{out, gone}, err: &strings.Builder{}, now: time.Now, location: time.UTC,
	})
	if code != 0 || !strings.Contains(gone.text.String(), "connection refused; trying again\n") {
		t.Errorf("exit code %d, %s", code, gone.text.String())
	}
}

// both writes to two outputs.
type both [2]*seenPages

func (b both) Write(text []byte) (int, error) {
	_, _ = b[0].Write(text)
	return b[1].Write(text)
}

// stoppable is a worker that is there until stop is called.
func stoppable(t *testing.T) (stop func(), port string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	status := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
		return json.RawMessage(workerAnswer), nil
	}
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{"status": status}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		expired, end := context.WithTimeout(context.Background(), 5*time.Second)
		defer end()
		_ = server.Shutdown(expired) // whoever is still there has gone by then
	})
	t.Cleanup(stop)
	return stop, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
