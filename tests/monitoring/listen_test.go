package monitoring

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// over asks over a unix socket.
func over(t *testing.T, socket, path string) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	answer := must.Get((&http.Client{Transport: transport}).Get("http://jobd" + path))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	return string(body)
}

// A worker tells of itself behind a crash and behind a restart, though its socket was left by the one
// and taken by the other.
func TestASocketOutlivesWorkers(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "http.sock")
	settings := harness.NewDatabase(t).Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(harness.Settings{"http_listen": socket})
	settings.StartWorker(t).Kill(t)
	worker := settings.StartWorker(t)
	if text := over(t, socket, "/readyz"); text != "ready\n" {
		t.Errorf("behind a crash: %q", text)
	}
	harness.Dial(t, worker.Addr).Ask(t, "restart", nil)
	harness.Until(t, func() string {
		if strings.Count(worker.Output(), "worker serves") < 2 {
			return "the worker has not started again"
		}
		return ""
	})
	if text := over(t, socket, "/metrics"); !strings.Contains(text, "\njobd_ready 1\n") {
		t.Errorf("behind a restart: %q", text)
	}
}

// Where the address is somebody else's, nothing is started: a worker that nobody can watch is not
// what was asked for.
func TestAnAddressThatIsInUse(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	in := harness.Settings{"http_listen": listener.Addr().String()}
	worker := harness.NewDatabase(t).Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(in)
	master := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}.With(in)
	for program, settings := range map[string]harness.Settings{"jobd": worker, "jobd-master": master} {
		d := harness.Launch(t, program, settings.Write(t), settings.Addr())
		if code := d.ExitCode(t); code != 1 || !strings.Contains(d.Output(), "listen for HTTP (key http_listen)") || !strings.Contains(d.Output(), "address already in use") {
			t.Errorf("%s: exit code %d: %s", program, code, d.Output())
		}
	}
}
