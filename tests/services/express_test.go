package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/freeport"
)

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

// Hundreds of jobs over connections that stay, and none is lost: each is one request.
func TestNoRequestIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	app := express(t)
	reached := newAsker(t)
	service := reached.reach(app.url("/jobs/ok/{id}"))
	const slots, each = 4, 100
	var all sync.WaitGroup
	for slot := range slots {
		all.Go(func() {
			mine := &asker{Requester: reached.Requester, t: t, jobs: int64(1000 * slot)}
			for range each {
				if got := shown(mine.run(service)); !strings.HasPrefix(got, "ok 0") {
					t.Errorf("a job ended as %s", got)
				}
			}
		})
	}
	all.Wait()
	app.stop()
	taken := map[string]bool{}
	for len(app.lines) > 0 {
		if claim, is := strings.CutPrefix(<-app.lines, "took "); is && taken[claim] {
			t.Errorf("%s came twice", claim)
		} else if is {
			taken[claim] = true
		}
	}
	if len(taken) != slots*each {
		t.Errorf("%d requests came of %d", len(taken), slots*each)
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
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
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
	if got := shown(a.run(a.reach(front.url("/jobs/waits/{id}")))); !strings.Contains(got, "HTTP/1.1 504 Gateway Time-out: the service behind it may have had the request: nobody can tell") {
		t.Errorf("what nginx does not wait for ended as %s", got)
	}
	if got := shown(a.run(a.reach(front.url("/jobs/dies/{id}")))); !strings.Contains(got, "HTTP/1.1 502 Bad Gateway: the service behind it may have had the request: nobody can tell") {
		t.Errorf("what died behind nginx ended as %s", got)
	}
	app.stop()
	if got := shown(a.run(service)); !strings.Contains(got, "HTTP/1.1 502 Bad Gateway: the service behind it may have had the request: nobody can tell") {
		t.Errorf("with nobody behind nginx it ended as %s", got)
	}
	front.stop()
	if got := shown(a.run(service)); !strings.Contains(got, "refused") {
		t.Errorf("without nginx it ended as %s", got)
	}
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
