package services

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/check"
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
	harness.Dial(t, w.Addr).Ask(t, "poll", nil)
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "ok" || harness.Text(row.Stdout) != "23" || app.times(1) != 2 {
		t.Errorf("it came %d times, and its row is %s", app.times(1), row)
	}
	if row := db.AwaitDone(t, 2); harness.Text(row.Result) != "fail" || *row.Code != 4 || app.times(2) != 1 {
		t.Errorf("it came %d times, and its row is %s", app.times(2), row)
	}
}

func express(t *testing.T) *server {
	t.Helper()
	return serve(t, []string{"SIGNED=" + signed(t, "signed.cjs")}, "node", "testdata/express.cjs")
}

func TestExpress(t *testing.T) {
	t.Parallel()
	app := express(t)
	a := newAsker(t)
	for path, want := range map[string]string{
		"ok":     `ok 0 out "job %d\n" err ""`,
		"json":   `ok 0 out "{\"job\":\"%d\"}" err ""`,
		"code":   `fail 7 out "" err "HTTP/1.1 200 OK\nseven"`,
		"later":  `fail 4 out "" err "HTTP/1.1 429 Too Many Requests\nToo Many Requests", after 120 s`,
		"away":   `fail 3 out "" err "HTTP/1.1 302 Found\nFound. Redirecting to /jobs/ok/1", for good`,
		"absent": `fail 4 out "" err "HTTP/1.1 404 Not Found\n`,
		"throws": `fail 5 out "" err "HTTP/1.1 500 Internal Server Error\n`,
		"pieces": `ok 0 out "0\n1\n2\n`,
	} {
		service := a.reach(app.url("/jobs/" + path + "/{id}"))
		got := shown(a.run(service))
		if strings.Contains(want, "%d") {
			want = fmt.Sprintf(want, a.jobs)
		}
		if !strings.HasPrefix(got, want) || path == "throws" && !strings.Contains(got, "Error: broken") || path == "pieces" && !strings.Contains(got, `98\n99\n" err`) {
			t.Errorf("%s ended as %s, not %s", path, got, want)
		}
	}
}

// nginx serves what its page says at a port, in front of another one. Of what waits it is soon tired.
func nginx(t *testing.T, behind int) *server {
	t.Helper()
	return nginxWith(t, fmt.Sprintf(`    location / {
%[1]s
    }
    location /jobs/waits/ {
%[1]s
      proxy_read_timeout 100ms;
    }
`, passed(t, behind)))
}

// nginxWith serves some locations.
func nginxWith(t *testing.T, locations string) *server {
	t.Helper()
	s := &server{port: port(t), lines: make(chan string, 10_000)}
	folder := t.TempDir()
	config := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s;
%[3]s
  }
}
`, folder, freeport.Address(s.port), locations)
	file := filepath.Join(folder, "nginx.conf")
	must.Do(t, os.WriteFile(file, []byte(config), 0o644))
	s.start(t, nil, "nginx", "-c", file, "-p", folder)
	return s
}

func TestExpressBehindNginx(t *testing.T) {
	t.Parallel()
	app := express(t)
	front := nginx(t, app.port)
	a := newAsker(t)
	service := a.reach(front.url("/jobs/ok/{id}"))
	for range 50 {
		if got := shown(a.run(service)); !strings.HasPrefix(got, `ok 0 out "job `) {
			t.Fatalf("it ended as %s", got)
		}
	}
	if got := shown(a.run(a.reach(front.url("/jobs/waits/{id}")))); !strings.Contains(got, "HTTP/1.1 504 Gateway Time-out: the service behind it may have had the request: its outcome is unknown") {
		t.Errorf("what nginx does not wait for ended as %s", got)
	}
	if got := shown(a.run(a.reach(front.url("/jobs/dies/{id}")))); !strings.Contains(got, "HTTP/1.1 502 Bad Gateway: the service behind it may have had the request: its outcome is unknown") {
		t.Errorf("what died behind nginx ended as %s", got)
	}
	app.stop()
	if got := shown(a.run(service)); !strings.Contains(got, "HTTP/1.1 502 Bad Gateway: the service behind it may have had the request: its outcome is unknown") {
		t.Errorf("with nobody behind nginx it ended as %s", got)
	}
	front.stop()
	check.Contains(t, shown(a.run(service)), "refused", "without nginx it ended as")
}

// passed is what the page says of nginx, to a service at a port, less its time.
func passed(t *testing.T, port int) string {
	t.Helper()
	_, rest, found := strings.Cut(page(t), "\nlocation /jobs/ {\n")
	lines, _, ended := strings.Cut(rest, "\n}\n")
	if !found || !ended {
		t.Fatal("the page has no location for nginx")
	}
	lines = strings.Replace(lines, "127.0.0.1:3000", freeport.Address(port), 1)
	before, _, found := strings.Cut(lines, "    proxy_read_timeout")
	if !found {
		t.Fatal("the page has no proxy_read_timeout")
	}
	return before
}

// receivers are the servers that check who is asking, each by the code of the page.
func receivers(t *testing.T) map[string]*server {
	t.Helper()
	php := port(t)
	s := map[string]*server{
		"python": serve(t, []string{"SIGNED=" + signed(t, "signed.py")}, "python3", "testdata/receiver.py"),
		"ruby":   serve(t, []string{"SIGNED=" + signed(t, "signed.rb")}, "ruby", "testdata/receiver.rb"),
		"js":     serve(t, []string{"SIGNED=" + signed(t, "signed.cjs")}, "node", "testdata/receiver.cjs"),
		"php":    {port: php, lines: make(chan string, 10_000)},
	}
	s["php"].start(t, []string{"SIGNED=" + signed(t, "signed.php")}, "php", "-S", freeport.Address(php), "testdata/receiver.php")
	return s
}

func TestReceiversOfThePageKnowWhoIsAsking(t *testing.T) {
	t.Parallel()
	for language, server := range receivers(t) {
		t.Run(language, func(t *testing.T) {
			a := newAsker(t)
			service := a.reach(server.url("/jobs%2F{id}?id={id}&a=%C3%A4"))
			check.Equal(t, shown(a.run(service)), `ok 0 out "job 1 of mail" err ""`, "a job ended as")
			service.Secret = "another"
			if got, want := shown(a.run(service)), ` for good`; !strings.Contains(got, "401") || !strings.HasSuffix(got, want) {
				t.Errorf("with another secret it ended as %s", got)
			}
			for change, want := range changes {
				check.Equal(t, server.ask(t, change), want, "%s: it answers", change)
			}
		})
	}
}

// changes are what somebody makes of a request that was overheard, and what a receiver says.
var changes = map[string]int{
	"nothing": 200, "without a deadline": 200, "a target of other letters": 200,
	"an old time": 401, "a time to come": 401, "no signature": 401, "nonsense": 401, "half a signature": 401,
	"another path": 401, "another query": 401, "another host": 401, "another method": 401,
	"Jobd-Id": 401, "Jobd-Attempt": 401, "Jobd-Claim": 401, "Jobd-Target": 401, "Jobd-Deadline": 401,
	"a deadline more": 401,
}

// ask sends a request that is signed as the page says, and changed then, and gives the answer's status.
func (s *server) ask(t *testing.T, change string) int {
	t.Helper()
	at, method, host, path := time.Now().Unix(), "POST", freeport.Address(s.port), "/jobs/1?x=y"
	names := []string{"Jobd-Id", "Jobd-Attempt", "Jobd-Claim", "Jobd-Target", "Jobd-Deadline"}
	told := map[string]string{
		"Jobd-Id": "1", "Jobd-Attempt": "2", "Jobd-Claim": "1-2-@abcdefghi", "Jobd-Target": "mail", "Jobd-Deadline": "1795377600",
	}
	switch change {
	case "without a deadline", "a deadline more":
		delete(told, "Jobd-Deadline")
	case "a target of other letters":
		told["Jobd-Target"] = "gr%C3%BC%C3%9Fe"
	case "an old time":
		at -= 330
	case "a time to come":
		at += 330
	}
	lines := []string{fmt.Sprint(at), method, host, path}
	for _, name := range names {
		lines = append(lines, told[name])
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join(lines, "\n")))
	told["Jobd-Signature"] = fmt.Sprintf("t=%d,v1=%x", at, mac.Sum(nil))
	switch change {
	case "no signature":
		delete(told, "Jobd-Signature")
	case "nonsense":
		told["Jobd-Signature"] = "t=,v1="
	case "half a signature":
		told["Jobd-Signature"] = told["Jobd-Signature"][:40]
	case "another path":
		path = "/jobs/2?x=y"
	case "another query":
		path = "/jobs/1?x=z"
	case "another host":
		host = "app.example"
	case "another method":
		method = "PUT"
	case "a deadline more":
		told["Jobd-Deadline"] = "1795377600"
	default:
		if value, is := told[change]; is {
			told[change] = value + "1"
		}
	}
	c := must.Get(net.Dial("tcp", freeport.Address(s.port)))(t)
	defer c.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n", method, path, host)
	for name, value := range told {
		head += name + ": " + value + "\r\n"
	}
	must.Get(fmt.Fprint(c, head+"\r\n"))(t)
	response := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	defer response.Body.Close()
	return response.StatusCode
}
