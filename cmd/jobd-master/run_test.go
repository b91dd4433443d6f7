package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// TestMain makes this binary the daemon itself, where it is not asked for tests.
func TestMain(m *testing.M) {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.") }) {
		failPulse = hangPulse
		main()
	}
	os.Exit(m.Run())
}

// patience bounds every wait of the tests: a test that reaches it has failed.
const patience = 2 * time.Minute

// program is a jobd-master process.
type program struct {
	t       *testing.T
	process *exec.Cmd
	stderr  *output
	exited  chan struct{}
}

// output is what the process wrote so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func launch(t *testing.T, args ...string) *program {
	t.Helper()
	d := &program{t: t, process: exec.Command(os.Args[0], args...), stderr: new(output), exited: make(chan struct{})}
	d.process.Stderr = d.stderr
	must.Do(t, d.process.Start())
	go func() { defer close(d.exited); _ = d.process.Wait() }()
	t.Cleanup(func() { _ = d.process.Process.Kill(); <-d.exited })
	return d
}

// until polls: what a process says signals nothing.
func (d *program) until(what string, is func() bool) {
	d.t.Helper()
	again, deadline := time.NewTicker(5*time.Millisecond), time.NewTimer(patience)
	defer again.Stop()
	defer deadline.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-d.exited:
			if !is() {
				d.t.Fatalf("%s: the process ended before; stderr:\n%s", what, d.stderr)
			}
			return
		case <-deadline.C:
			d.t.Fatalf("%s: not within %v; stderr:\n%s", what, patience, d.stderr)
		}
	}
}

// code waits for the process and gives its exit code.
func (d *program) code() int {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(patience):
		d.t.Fatalf("the process runs on; stderr:\n%s", d.stderr)
	}
	return d.process.ProcessState.ExitCode()
}

// address is where the daemon says that it listens.
func (d *program) address() (address string) {
	d.t.Helper()
	d.until("listening", func() bool {
		_, rest, found := strings.Cut(d.stderr.String(), "address=")
		line, _, whole := strings.Cut(rest, "\n")
		address, _, _ = strings.Cut(line, " ")
		return found && whole
	})
	return address
}

func connect(t *testing.T, address string) *jobnet.Link {
	t.Helper()
	link := must.Get(jobnet.Connect(context.Background(), address, jobnet.LinkConfig{Password: "s3cret"}))(t)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = link.Run(context.Background()) }()
	t.Cleanup(func() { _ = link.Close(); <-ended })
	return link
}

// write makes a configuration file.
func write(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jobd-master.conf")
	must.Do(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

func TestServesUntilASignal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, host string
		signal     syscall.Signal
	}{
		{"SIGTERM", "127.0.0.1", syscall.SIGTERM},
		{"SIGINT, listening on a name", "localhost", syscall.SIGINT},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := launch(t, "--config", write(t, "host = "+test.host, "port = 0", "password = s3cret", "log_level_console = info"))
			link := connect(t, d.address())
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			answer, err := link.Request(ctx, "status", nil)
			var status struct{ Workers []any }
			if err != nil || json.Unmarshal(answer, &status) != nil || status.Workers == nil {
				t.Errorf("status: %s, %v", answer, err)
			}
			must.Do(t, d.process.Process.Signal(test.signal))
			if code := d.code(); code != 0 {
				t.Errorf("exit code %d, want 0; stderr:\n%s", code, d.stderr)
			}
			<-link.Done()
		})
	}
}

// A client that waits for a manual job does not keep the master from stopping.
func TestStopsWhileAClientWaits(t *testing.T) {
	t.Parallel()
	d := launch(t, "--config", write(t, "host = 127.0.0.1", "port = 0", "log_level_console = info"))
	address := d.address()
	begun := make(chan struct{})
	worker, err := jobnet.Connect(context.Background(), address, jobnet.LinkConfig{Handlers: map[string]jobnet.Handler{
		"run-manual": func(ctx context.Context, _ *jobnet.Link, _ jobnet.Request) (any, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = worker.Run(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must.Get(worker.Request(ctx, "register-worker", map[string]any{"name": "w", "targets": []string{"a"}}))(t)
	client := connect(t, address)
	told := make(chan string, 1)
	go func() {
		answer, err := client.Request(ctx, "run-manual", json.RawMessage(`{"jobs":[{"id":1,"target":"a"}]}`))
		told <- fmt.Sprint(string(answer), err)
	}()
	<-begun
	must.Do(t, d.process.Process.Signal(syscall.SIGTERM))
	if code := d.code(); code != 0 || !strings.Contains(d.stderr.String(), "stopped before all requests were answered") {
		t.Errorf("exit code %d; stderr:\n%s", code, d.stderr)
	}
	// Which of the two connections ends first is open.
	if got := <-told; !strings.Contains(got, "outcome is unknown") && !strings.Contains(got, "link closed") {
		t.Errorf("the client was told %s", got)
	}
}

func TestHangupReopensTheLogAndReadsItsLevels(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	log := filepath.Join(folder, "master.log")
	settings := []string{"host = 127.0.0.1", "port = 0", "log_file = " + log, "log_level_console = info"}
	path := write(t, append(settings, "log_level_file = error")...)
	d := launch(t, "--config", path)
	d.address()
	hangUp := func(level string) {
		t.Helper()
		content := strings.Join(append(settings, "log_level_file = "+level), "\n")
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		must.Do(t, os.Rename(log, log+"."+level))
		must.Do(t, d.process.Process.Signal(syscall.SIGHUP))
	}
	says := func(text string) func() bool {
		return func() bool { content, _ := os.ReadFile(log); return strings.Contains(string(content), text) }
	}
	hangUp("info")
	d.until("level taken over, in a new file", says("configuration was read again"))
	hangUp("loud")
	d.until("a mistake is told", says("the old one stays"))
	must.Do(t, d.process.Process.Signal(syscall.SIGTERM))
	check.Equal(t, d.code(), 0, "exit code")
}

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	tests := []struct {
		name  string
		lines []string
		code  int
		want  []string
	}{
		{"port in use", []string{"host = 127.0.0.1", "port = " + port}, 1, []string{"listen", "127.0.0.1:" + port, "address already in use"}},
		{"host that is not ours", []string{"host = 192.0.2.1", "port = 0"}, 1, []string{"192.0.2.1", "cannot assign"}},
		{"no port", []string{"host = 127.0.0.1"}, 2, []string{"port"}},
		{"wrong values", []string{"host = x", "port = y", "ping_interval = z"}, 2, []string{"port", "ping_interval"}},
		{"log file that can't be written", []string{"host = 127.0.0.1", "port = 0", "log_file = /nowhere/master.log"}, 1, []string{"log_file", "/nowhere/master.log"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := launch(t, "--config", write(t, test.lines...))
			if code := d.code(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(d.stderr.String(), want) {
					t.Errorf("stderr lacks %q:\n%s", want, d.stderr)
				}
			}
		})
	}
}
