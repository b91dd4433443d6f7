package operator

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Jobs of a target are requests to a service: they are signed, and told by ps with their executor;
// while the service is away none is claimed, and status says why. Another secret counts on SIGHUP.
func TestJobsAsRequests(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	var signed, other atomic.Int64
	address := "127.0.0.1:" + harness.FreePort(t)
	serve := func() *httptest.Server {
		service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Jobd-Signature"), "t=") {
				signed.Add(1)
			} else {
				other.Add(1)
			}
			fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.Header.Get("Jobd-Id"))
		}))
		service.Listener.Close()
		listener := must.Get(net.Listen("tcp", address))(t)
		service.Listener = listener
		service.Start()
		return service
	}
	service := serve()
	settings := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"hook": 2}).With(harness.Settings{
		"[target hook] launcher": "http://" + address + "/run/{id}", "[target hook] launcher_secret": "of both sides",
	})
	worker := settings.StartWorker(t)
	run := func(id int64) {
		t.Helper()
		db.Insert(t, id, "hook", "waiting")
		jobctl(t, worker, "poll")
	}
	run(1)
	if row := db.AwaitDone(t, 1); harness.Text(row.Stdout) != "POST /run/1 1" {
		t.Errorf("the row: %s", row)
	}
	if e := executor(t, worker); e.Mode != "http" || e.Jobs != 1 || e.Unready != "" {
		t.Errorf("it stands so: %+v", e)
	}

	service.Close()
	run(2)
	awaitExecutor(t, worker, func(e executorStanding) bool { return strings.Contains(e.Unready, "connection refused") })
	if got := jobctl(t, worker, "health"); got.code != 2 || !strings.Contains(got.stdout, "it takes no work for ") {
		t.Errorf("no target can start a job, and health says %+v", got)
	}
	db.AwaitStatus(t, 2, "waiting")
	service = serve()
	t.Cleanup(func() { service.Close() })
	if row := db.AwaitDone(t, 2); harness.Text(row.Stdout) != "POST /run/2 2" {
		t.Errorf("the row: %s", row)
	}
	awaitExecutor(t, worker, func(e executorStanding) bool { return e.Unready == "" })

	if signed.Load() != 2 || other.Load() != 0 {
		t.Errorf("%d requests were signed, %d were not", signed.Load(), other.Load())
	}
	must.Do(t, os.WriteFile(worker.Config, []byte(settings.Without("[target hook] launcher_secret").String()), 0o600))
	worker.Signal(t, syscall.SIGHUP)
	harness.Until(t, func() string {
		if !strings.Contains(worker.Output(), "configuration was read again") {
			return "the configuration is not read again"
		}
		return ""
	})
	run(3)
	db.AwaitDone(t, 3)
	if other.Load() != 1 {
		t.Errorf("%d requests were not signed after the secret was taken away", other.Load())
	}
	if strings.Contains(worker.Output(), "of both sides") || strings.Contains(worker.Output(), "take effect at the next start") {
		t.Errorf("the log tells the secret, or that it counts later")
	}
}
