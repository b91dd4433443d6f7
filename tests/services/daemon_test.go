package services

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// application is a service of a test's own, which counts the requests for each job.
type application struct {
	*httptest.Server
	mu   sync.Mutex
	came map[string]int // by job
}

// newApplication serves; handle gets how many requests for the job have come.
func newApplication(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, nth int)) *application {
	t.Helper()
	a := &application{came: map[string]int{}}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.came[r.Header.Get("Jobd-Id")]++
		nth := a.came[r.Header.Get("Jobd-Id")]
		a.mu.Unlock()
		handle(w, r, nth)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *application) times(job int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.came[fmt.Sprint(job)]
}

// jobctl runs a command on a worker, and gives what it prints.
func jobctl(t *testing.T, d *harness.Daemon, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), append([]string{"--host", host, "--port", port, "--config", os.DevNull}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String()
}

// From the row to the row: what a service answers stands there, and its start was journalled before the
// service had the first byte.
func TestAWorkerSendsItsJobsToAService(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch id := r.Header.Get("Jobd-Id"); id {
		case "1":
			close(held)
			<-release
			fmt.Fprint(w, "held ", r.Header.Get("Jobd-Target"))
		case "2":
			http.Error(w, "no such order", http.StatusNotFound)
		case "3":
			w.Header().Set("Jobd-Exit-Code", "65")
			w.WriteHeader(http.StatusUnprocessableEntity)
		default:
			fmt.Fprint(w, "job ", id)
		}
	})
	app.Start()
	db := harness.NewDatabase(t)
	w := db.Worker(t, "node-1", app.URL+"/run/{id}", map[string]int{"a": 4}).StartWorker(t)
	db.InsertMany(t, 40, "a", "waiting")
	jobctl(t, w, "poll", "a")
	<-held
	if log := jobctl(t, w, "--output=json", "journal", "log", "--job", "1"); !strings.Contains(log, `"executor":"http"`) || !strings.Contains(log, `"address":"`+app.Listener.Addr().String()+`"`) {
		t.Errorf("while the service has the request, the journal has\n%s", log)
	}
	close(release)
	db.AwaitCount(t, 40, "status = 'done'")
	for id := int64(1); id <= 40; id++ {
		got := db.Row(t, id)
		want := fmt.Sprintf("ok 0 %q %q", fmt.Sprint("job ", id), "")
		switch id {
		case 1:
			want = `ok 0 "held a" ""`
		case 2:
			want = `fail 4 "" "HTTP/1.1 404 Not Found\nno such order\n"`
		case 3:
			want = `fail 65 "" "HTTP/1.1 422 Unprocessable Entity\n"`
		}
		if said := fmt.Sprintf("%s %d %q %q", harness.Text(got.Result), *got.Code, harness.Text(got.Stdout), harness.Text(got.Stderr)); said != want {
			t.Errorf("row %d has %s, not %s", id, said, want)
		}
		if n := app.times(int(id)); n != 1 {
			t.Errorf("job %d came %d times", id, n)
		}
	}
}

// A worker that is killed can't learn what became of a request: the next one says so, and sends it no
// second time.
func TestAKilledWorkerLeavesARequestUnknown(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	app := newApplication(t, func(http.ResponseWriter, *http.Request, int) {
		close(held)
		<-release
	})
	app.Start()
	t.Cleanup(func() { close(release) })
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "node-1", app.URL+"/run/{id}", map[string]int{"a": 1})
	w := settings.StartWorker(t)
	db.InsertMany(t, 1, "a", "waiting")
	jobctl(t, w, "poll", "a")
	<-held
	w.Kill(t)
	settings.StartWorker(t)
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "fail" || !strings.Contains(harness.Text(row.Stderr), "outcome unknown") || app.times(1) != 1 {
		t.Errorf("it came %d times, and its row is %s", app.times(1), row)
	}
}

// As long as a service is away nothing is claimed, and its target says why; its jobs are run when it is
// back, without anybody's help.
func TestAServiceThatIsAwayUsesUpNoRow(t *testing.T) {
	t.Parallel()
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprint(w, "out") })
	address := freeport.Address(port(t))
	db := harness.NewDatabase(t)
	w := db.Worker(t, "node-1", "http://"+address+"/run/{id}", map[string]int{"a": 4}).StartWorker(t)
	db.InsertMany(t, 20, "a", "waiting")
	jobctl(t, w, "poll", "a")
	harness.Until(t, func() string {
		if said := jobctl(t, w, "why", "7"); !strings.Contains(said, address) || !strings.Contains(said, "refused") {
			return said
		}
		return ""
	})
	db.AwaitCount(t, 20, "status = 'waiting'")
	listener := must.Get(net.Listen("tcp", address))(t)
	app.Listener.Close()
	app.Listener = listener
	app.Start()
	db.AwaitCount(t, 20, "status = 'done' AND result = 'ok' AND stdout = 'out'")
}

// What a service says of another attempt counts more than what the configuration does.
func TestAServiceSaysWhetherAndWhenAJobIsTriedAgain(t *testing.T) {
	t.Parallel()
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, nth int) {
		switch {
		case r.Header.Get("Jobd-Id") == "2":
			http.Error(w, "never", http.StatusGone)
		case nth == 1:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "later", http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, r.Header.Get("Jobd-Attempt"), r.Header.Get("Jobd-Max-Attempts"))
		}
	})
	app.Start()
	db := harness.NewDatabase(t, harness.TimesTable)
	w := db.Worker(t, "node-1", app.URL+"/run/{id}", map[string]int{"a": 4}).With(harness.UsesAll,
		harness.Terms("a", harness.Settings{"attempts": "3", "backoff": "1h"})).StartWorker(t)
	db.InsertMany(t, 2, "a", "waiting")
	jobctl(t, w, "poll", "a")
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "ok" || harness.Text(row.Stdout) != "23" || app.times(1) != 2 {
		t.Errorf("it came %d times, and its row is %s", app.times(1), row)
	}
	if row := db.AwaitDone(t, 2); harness.Text(row.Result) != "fail" || *row.Code != 4 || app.times(2) != 1 {
		t.Errorf("it came %d times, and its row is %s", app.times(2), row)
	}
}
