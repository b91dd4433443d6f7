package page

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// jobctl gives what jobctl prints, asked of a daemon.
func jobctl(t *testing.T, d *harness.Daemon, args ...string) string {
	t.Helper()
	host, port, _ := strings.Cut(d.Addr, ":")
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), append([]string{"--config=", "--host", host, "--port", port}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "JOBCTL_PASSWORD=" + secret}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("jobctl %s: %v %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// stood is a job as jobctl journal state prints it.
type stood struct {
	Job                    int64
	Target, Status, Result string
	Code                   *int
}

func (s stood) String() string {
	how := ""
	if s.Status == "done" {
		how = s.Result
		if s.Code != nil && *s.Code != 0 {
			how = fmt.Sprintf("exit code %d", *s.Code)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s %s", s.Job, s.Target, s.Status, how))
}

var (
	rowOfJob     = regexp.MustCompile(`<tr><th scope="row" class="n"><a href="/jobs/(\d+)[^>]*>\d+</a></th><td class="name"><a [^>]*>([^<]*)</a></td><td class="[^"]*">([^<]*)</td><td.*?</td><td class="n">[^<]*</td><td class="[^"]*">([^<]*)</td>`)
	rowOfTarget  = regexp.MustCompile(`<tr><th scope="row" class="name"><a [^>]*>([^<]*)</a></th>(?:<td class="name">[^<]*</td>)?<td class="n">(\d+)</td><td class="n">(\d+)</td><td class="n">(\d+)</td></tr>`)
	stateOfJob   = regexp.MustCompile(`<strong>(?:On w1: )?(\w+)`)
	olderAddress = regexp.MustCompile(`<a href="([^"]*)" rel="next">`)
)

// listed are the jobs of a list, page by page.
func listed(t *testing.T, at, path string) (all []string) {
	t.Helper()
	for path != "" {
		body := see(t, at+path)
		for _, row := range rowOfJob.FindAllStringSubmatch(body, -1) {
			all = append(all, strings.TrimSpace(strings.Join(row[1:], " ")))
		}
		next := olderAddress.FindStringSubmatch(body)
		if path = ""; next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	return all
}

// As it was at any time is what jobctl says of it, on the worker's page and on the master's.
func TestAsItWas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	began := time.Now()
	for id := range int64(120) {
		s.db.Insert(t, id+1, []string{"mail", foreign}[id%2], "waiting")
		if id%30 == 29 {
			s.poll(t, "mail")
			s.poll(t, foreign)
		}
	}
	s.insert(t, "mail", 1000, 1001)
	s.db.AwaitCount(t, 120, "status = 'done'")
	s.db.AwaitCount(t, 2, "status = 'running'")
	jobctl(t, s.worker, "retry", "7", "27", "20")
	s.poll(t, "mail")
	s.end(t, 1000)
	s.db.AwaitCount(t, 121, "status = 'done'")
	lasted := time.Since(began)
	for i := range 100 {
		moment := began.Add(rand.N(lasted))
		at := fmt.Sprintf("%d.%06d", moment.Unix(), moment.Nanosecond()/1000)
		var want []string
		targets, statuses := map[string][3]int{}, map[int64]string{}
		lines := json.NewDecoder(strings.NewReader(jobctl(t, s.worker, "--output", "json", "journal", "state", "--at", at)))
		for lines.More() {
			var job stood
			must.Do(t, lines.Decode(&job))
			want = append(want, job.String())
			statuses[job.Job] = job.Status
			counts := targets[job.Target]
			if i := slices.Index([]string{"accepted", "starting", "running"}, job.Status); i >= 0 {
				counts[i]++
				targets[job.Target] = counts
			}
		}
		slices.Reverse(want)
		query := "?" + url.Values{"at": {at}}.Encode()
		for daemon, page := range s.at {
			if (daemon == "master") != (i%2 == 0) { // in turn
				continue
			}
			if got := listed(t, page, "/jobs"+query); !slices.Equal(got, want) {
				t.Errorf("%s at %s: jobs\n%s\nnot\n%s", daemon, at, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			got := map[string][3]int{}
			for _, row := range rowOfTarget.FindAllStringSubmatch(see(t, page+"/targets"+query), -1) {
				var counts [3]int
				for i := range counts {
					must.Get(fmt.Sscan(row[i+2], &counts[i]))(t)
				}
				got[row[1]] = counts
			}
			if fmt.Sprint(got) != fmt.Sprint(targets) {
				t.Errorf("%s at %s: targets %v, not %v", daemon, at, got, targets)
			}
			job := []int64{7, 20, 27, 60, 1000, 1001}[rand.N(6)]
			body := see(t, fmt.Sprintf("%s/jobs/%d%s", page, job, query))
			status := ""
			if found := stateOfJob.FindStringSubmatch(body); found != nil {
				status = found[1]
			}
			if status != statuses[job] || strings.Contains(body, `method="post" action="/jobs`) || strings.Contains(body, "/retry") {
				t.Errorf("%s at %s: job %d is %q, not %q: %s", daemon, at, job, status, statuses[job], text(body))
			}
		}
		if t.Failed() {
			return
		}
	}
	s.end(t, 1001)
	for path, want := range map[string]int{
		"/jobs?at=1h&status=waiting": 400, "/jobs?at=never": 400, "/targets?at=never": 400, "/jobs/7?at=x": 400, "/jobs/retry?at=1h": 400,
		"/jobs?at=1h&status=running&target=mail": 200, "/jobs?at=1h&worker=w1&result=ok": 200, "/workers?at=1h": 200, "/jobs?at=1h&before=-1": 400,
	} {
		if code, body, _ := ask(t, "GET", s.at["master"]+path, secret, nil); code != want {
			t.Errorf("%s: %d, not %d: %s", path, code, want, text(body))
		}
	}
	if code, body, _ := ask(t, "GET", s.at["worker"]+"/targets?at=1s", s.tokens["status-all"], nil); code != http.StatusForbidden {
		t.Errorf("who may not read the journal: %d %s", code, text(body))
	}
	if code, body, _ := ask(t, "GET", s.at["worker"]+"/jobs?at=0s", s.tokens["read-mail"], nil); code != http.StatusOK || strings.Contains(body, foreign) {
		t.Errorf("who has some targets: %d %s", code, text(body))
	}
}

// What takes longer than two seconds says so while it lasts: here the worker stands still.
func TestAsItWasTakesTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert(t, "mail", 1)
	s.db.AwaitDone(t, 1)
	s.worker.Signal(t, syscall.SIGSTOP)
	request := must.Get(http.NewRequestWithContext(harness.Bounded(t), http.MethodGet, s.at["master"]+"/jobs?at=0s", http.NoBody))(t)
	request.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		s.worker.Signal(t, syscall.SIGCONT)
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var body strings.Builder
	read := make([]byte, 4096)
	for goesOn := false; err == nil; {
		var n int
		n, err = answer.Body.Read(read)
		body.Write(read[:n])
		if !goesOn && (err != nil || strings.Contains(body.String(), "The journals are read")) {
			goesOn = true
			s.worker.Signal(t, syscall.SIGCONT)
		}
	}
	if told := text(body.String()); !strings.Contains(told, "The journals are read: ") || !strings.Contains(body.String(), `href="/jobs/1?at=0s"`) || !strings.Contains(body.String(), "</html>") {
		t.Errorf("a page that takes a while: %s", told)
	}
}
