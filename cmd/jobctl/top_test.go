package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
	"jobd/cmd/jobctl/live"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestTopIsRefusedWhereItCanNotBeShown(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", nil)
	for args, want := range map[string]string{
		"top":                         "top: needs a terminal to show its view, and to read keys from; status --watch, ps and queue print the same as text",
		"top --output=json":           "top: shows a view, no JSON; status --watch, ps and queue print the same as text",
		"top mail":                    `top: takes no arguments`,
		"top --interval 100ms":        `--interval: "100ms" is not allowed; allowed: seconds, or a duration such as 500ms, 2m, 1h30m or 30d, of at least 500ms`,
		"top --interval=0.2":          `--interval: "0.2" is not allowed`,
		"top --interval=5":            "top: needs a terminal",
		"top --interval=often":        `--interval: "often" is not allowed; allowed: seconds`,
		"--master top --interval 10s": "top: needs a terminal",
	} {
		got := jobctl{}.run(t, append([]string{"--port", d.port}, strings.Fields(args)...)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
	if asked := d.asked(); len(asked) > 0 {
		t.Errorf("the daemon was asked %q", asked)
	}
}

// topOf is what the live view asks, with a daemon on a port.
func topOf(t *testing.T, port string, master bool) *topSource {
	t.Helper()
	p := &program{surroundings: surroundings{now: time.Now, location: time.UTC, patience: 5 * time.Second}}
	p.set = newSet(nil, nil, nil)
	p.config.register(p.set)
	p.config.host, p.config.port, p.config.master = "127.0.0.1", atoi(t, port), master
	p.log = &logging.Log{Logger: slog.New(slog.DiscardHandler)}
	d := p.daemon()
	t.Cleanup(d.Close)
	return &topSource{p, d}
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(text), &n))
	return n
}

// A worker that knows less than is asked says so, and what it knows is shown.
func TestTopOfAnOlderWorker(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer)})
	s := topOf(t, d.port, false)
	fleet, err := s.Fleet(t.Context())
	if err != nil || len(fleet.Workers) != 1 || fleet.Workers[0].Value == nil {
		t.Fatalf("%+v, %v", fleet, err)
	}
	const older = "because it is an older jobd, or the original"
	if running, err := s.Running(t.Context(), api.RunningQuery{}); err != nil || len(running.Errors) != 1 || !strings.Contains(running.Errors[""], older) {
		t.Errorf("running: %q, %v", running.Errors, err)
	}
	if waiting, err := s.Waiting(t.Context(), fleet, fleet.Targets()); err != nil || len(waiting.Silent) != 1 || !strings.Contains(waiting.Silent[0].Error(), older) {
		t.Errorf("waiting: %q, %v", waiting.Silent, err)
	}
	job := live.Job{RunningJob: api.RunningJob{Job: 5, Target: "mail"}, From: fleet.Workers[0].From}
	if _, err := s.Do(t.Context(), live.Action{Kind: live.Cancel, Job: job}); err == nil || !strings.Contains(err.Error(), "older jobd") {
		t.Errorf("cancel: %v", err)
	}
}

// relaying is a master of three workers, which keeps what they were asked: one tells, one is older, one fails.
type relaying struct {
	mu    sync.Mutex
	asked []string
}

func (r *relaying) handle(typ string) jobnet.Handler {
	return func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		if typ == "running" { // of all
			return json.RawMessage(`{"workers": [
				{"name": "one", "address": "a:1", "data": {"jobs": [{"job": 7, "target": "mail", "attempt": 1, "since": 5}], "total": 12}},
				{"name": "two", "address": "a:2", "error": "unknown request type: 'running'"},
				{"name": "three", "address": "a:3", "error": "no answer within 5s"}]}`), nil
		}
		worker, err := request.Fields().Text("worker")
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.asked = append(r.asked, typ+" "+worker+" "+string(request.Fields()["targets"]))
		r.mu.Unlock()
		answer := api.RelayedAnswer{Name: worker, Address: worker}
		if worker == "a:2" {
			answer.Error = "unknown request type: '" + typ + "'"
		} else {
			answer.Data = json.RawMessage(`{"targets": {"mail": {"count": 3}}}`)
		}
		return api.Relayed{Workers: []api.RelayedAnswer{answer}}, nil
	}
}

// What runs is asked of all workers of a master, what waits of one that can tell; who can't is named.
func TestTopAsksTheWorkersOfAMaster(t *testing.T) {
	t.Parallel()
	r := &relaying{}
	port := listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(`{"workers": [
				{"name": "one", "remoteAddr": "a", "remotePort": 1, "targets": ["mail", "video"], "workerStatus": {"database": {"reachable": true}, "targets": {"mail": {}, "video": {}}}},
				{"name": "two", "remoteAddr": "a", "remotePort": 2, "targets": ["mail", "fax"], "workerStatus": {"database": {"reachable": true}, "targets": {"mail": {}, "fax": {}}}},
				{"name": "unheard", "remoteAddr": "a", "remotePort": 3, "targets": ["mail"], "workerStatusError": "no answer within 5s"}],
				"unserved": [{"target": "print", "since": 1763632800000}], "unservedCount": 3, "memoryUsage": {},
				"down": [{"name": "four", "targets": ["mail"], "since": 1763632800000}]}`), nil
		},
		"running": r.handle("running"), "waiting": r.handle("waiting"),
	}})
	s := topOf(t, port, true)
	fleet, err := s.Fleet(t.Context())
	if err != nil || len(fleet.Workers) != 3 || fleet.Workers[2].Err.Error() != "no answer within 5s" || fleet.Workers[0].From.Address != "a:1" {
		t.Fatalf("%+v, %v", fleet, err)
	}
	running, err := s.Running(t.Context(), api.RunningQuery{Most: 5})
	if err != nil || running.Total != 12 || len(running.Jobs) != 1 || running.Jobs[0].Worker != "one" || running.Jobs[0].From.Address != "a:1" {
		t.Errorf("%+v, %v", running, err)
	}
	if len(running.Errors) != 2 || !strings.Contains(running.Errors["two"], "it can't report this") || !strings.Contains(running.Errors["three"], "no answer") {
		t.Errorf("%q", running.Errors)
	}
	r.asked = nil
	waiting, err := s.Waiting(t.Context(), fleet, []string{"fax", "mail", "nobody", "video"})
	slices.Sort(r.asked)
	check.Elements(t, r.asked, []string{`waiting a:1 ["fax","mail","nobody","video"]`}, "asked")
	if err != nil || waiting.Targets["mail"].Count != 3 || len(waiting.Silent) != 0 {
		t.Errorf("%+v, %v", waiting, err)
	}
}

func TestTopSaysWhatBecameOfAnAction(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "pause": "ok", "continue": "ok", "poll": "ok",
	})
	s := topOf(t, d.port, false)
	for _, test := range []struct {
		action       live.Action
		want, failed string
	}{
		{live.Action{Kind: live.Pause, Target: "mail"}, "ok", ""},
		{live.Action{Kind: live.Continue, Target: "mail"}, "ok", ""},
		{live.Action{Kind: live.Poke, Target: "mail"}, "ok", ""},
	} {
		got, err := s.Do(t.Context(), test.action)
		if got != test.want || (err == nil) != (test.failed == "") || err != nil && err.Error() != test.failed {
			t.Errorf("%+v: %q, %v", test.action, got, err)
		}
	}
	want := []string{`pause {"targets":["mail"]}`, `continue {"targets":["mail"]}`, `poll {"targets":["mail"]}`}
	if got := slices.DeleteFunc(d.asked(), func(s string) bool { return strings.HasPrefix(s, "status") }); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

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
	for name, test := range map[string]struct {
		terminal bool
		args     string
		sign     string // which a page has once
		between  string // stands before each page
	}{
		"in a pipe": {false, "", "resident memory", "2026-11-20 12:00:00.000000\n"},
		"in place":  {true, "", "resident memory", "\x1b[H\x1b[2J12:00:00\n"},
		"as JSON":   {false, "--output=json", "memoryUsage", `{`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--port", worker.port, "status", "--watch"}, strings.Fields(test.args)...)
			got := watching(t, test.terminal, test.sign, args...)
			if got.code != 0 || got.err != "" || !strings.HasPrefix(got.out, test.between) || strings.Count(got.out, test.sign) != 2 {
				t.Errorf("%+v", got)
			}
			if test.args == "" {
				check.Equal(t, strings.Count(got.out, test.between), 2, "%q", got.out)
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
		check.Do(t, <-ended, "serve")
		expired, end := context.WithTimeout(context.Background(), 5*time.Second)
		defer end()
		_ = server.Shutdown(expired) // whoever is still there has gone by then
	})
	t.Cleanup(stop)
	return stop, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
