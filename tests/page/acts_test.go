package page

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
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

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// act is something that one may do, about a row of its own with the target that stands in the path.
type act struct {
	path   string // %d is the row's id
	scopes string
	form   url.Values
	row    string // what the row says: status, run_at, schedule
	wants  string // what the state has then
}

var acts = []act{
	{"/targets/mail/pause", "admin", nil, "", "mail paused true"},
	{"/targets/mail/continue", "admin", nil, "", "mail paused false"},
	{"/targets/mail/slots", "admin", url.Values{"worker": {"w1"}, "slots": {"9"}}, "", "mail slots 9"},
	{"/targets/mail/slots", "admin", url.Values{"worker": {"w1"}, "slots": {"4"}}, "", "mail slots 4"},
	{"/targets/mail/recycle", "admin", nil, "", ""}, // there is nothing to recycle
	{"/targets/mail/poke", "submit run admin", nil, "'waiting', 0, NULL", "%d mail done ok"},
	{"/workers/w1/reload", "admin*", nil, "", ""},
	{"/jobs/%d/retry", "run admin", nil, "'ignored', 0, NULL", "%d mail done ok"},
	{"/jobs/%d/cancel", "run admin", nil, "'manual', 0, NULL", "%d mail ignored"},
	{"/jobs/%d/signal", "run admin", url.Values{"signal": {"SIGKILL"}}, "'waiting', 0, NULL", "%d mail done fail"},
	{"/jobs/%d/run-now", "run admin", nil, "'delayed', 4000000000, NULL", "%d mail done ok"},
	{"/schedules/%d/pause", "run admin", nil, "'delayed', 4000000000, 'every 1h'", fmt.Sprintf("%%d mail delayed %d", int64(journal.PausedAt))},
	{"/schedules/%d/continue", "run admin", nil, fmt.Sprintf("'delayed', %d, 'every 1h'", int64(journal.PausedAt)), "%d mail delayed 1"},
}

// state is what acts change: rows and what the worker says of its targets, a line each.
func (s *site) state(t *testing.T) string {
	t.Helper()
	var lines []string
	rows := must.Get(s.db.Admin.QueryContext(t.Context(), "SELECT id, target, status, IFNULL(result, ''), IF(status = 'delayed', run_at, '') FROM jobs ORDER BY id"))(t)
	defer rows.Close()
	for rows.Next() {
		var id int64
		var target, status, result, due string
		must.Do(t, rows.Scan(&id, &target, &status, &result, &due))
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(id, " ", target, " ", status, " ", due, " ", result)), " "))
	}
	must.Do(t, rows.Err())
	w := harness.Dial(t, s.worker.Addr)
	defer w.Close()
	w.Authorise(t, secret)
	var status struct {
		Targets map[string]struct {
			Paused      bool
			Concurrency int
		}
	}
	w.Ask(t, "status", nil).Decode(t, &status)
	for _, name := range slices.Sorted(maps.Keys(status.Targets)) {
		lines = append(lines, fmt.Sprintf("%s paused %v", name, status.Targets[name].Paused), fmt.Sprintf("%s slots %d", name, status.Targets[name].Concurrency))
	}
	return strings.Join(lines, "\n") + "\n"
}

// Each act is done for those who may, and for nobody else; and to look at its address does nothing.
func TestWhoDoesWhat(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.UsesAll)
	next := int64(100)
	row := func(a act, target string) int64 {
		if next++; next%10 == 7 {
			next++
		}
		id := next
		if strings.HasSuffix(a.path, "/signal") { // it runs on
			id += 1000
		}
		if a.row != "" {
			s.db.Exec(t, "INSERT INTO jobs (time_created, id, target, status, run_at, schedule) VALUES (UNIX_TIMESTAMP(), ?, ?, "+a.row+")", id, target)
		}
		if id > 1000 {
			s.poll(t, target)
			s.awaitStarted(t, id)
		}
		return id
	}
	ended := func(id int64) {
		if id > 1000 {
			s.end(t, id)
			s.db.AwaitDone(t, id)
		}
	}
	address := func(a act, id int64) string {
		if strings.Contains(a.path, "%d") {
			return fmt.Sprintf(a.path, id)
		}
		return a.path
	}
	for _, a := range acts {
		for _, daemon := range []string{"master", "worker"} {
			page, id := s.at[daemon], row(a, "mail")
			before := s.state(t)
			for who, token := range s.tokens {
				scope, targets, _ := strings.Cut(who, "-")
				allowed := strings.Fields(a.scopes)
				if slices.Contains(allowed, scope) || targets == "all" && slices.Contains(allowed, scope+"*") {
					continue
				}
				if code, body, _ := ask(t, "POST", page+address(a, id), token, a.form); code != http.StatusForbidden {
					t.Errorf("%s%s by %s: %d %s", daemon, a.path, who, code, text(body))
				}
			}
			ask(t, "GET", page+address(a, id), secret, nil)
			for _, header := range []string{"Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site", "Accept: text/html"} {
				if code, _, _ := ask(t, "POST", page+address(a, id), "", a.form, header); code != http.StatusForbidden && code != http.StatusUnauthorized {
					t.Errorf("%s%s with %s: %d", daemon, a.path, header, code)
				}
			}
			check.Equal(t, s.state(t), before, "%s%s was done by who may not, or by a look: … then", daemon, a.path)
			for who, token := range s.tokens {
				scope, targets, _ := strings.Cut(who, "-")
				allowed := strings.Fields(a.scopes)
				if !slices.Contains(allowed, scope) && (targets != "all" || !slices.Contains(allowed, scope+"*")) {
					continue
				}
				id := id
				if a.row != "" {
					id = row(a, "mail")
				}
				code, body, answer := ask(t, "POST", page+address(a, id), token, a.form)
				if strings.HasSuffix(a.path, "/recycle") {
					if code != http.StatusConflict || !strings.Contains(body, "has no pool processes") {
						t.Errorf("%s%s by %s: %d %s", daemon, a.path, who, code, text(body))
					}
					continue
				}
				if code != http.StatusSeeOther {
					t.Errorf("%s%s by %s: %d %s", daemon, a.path, who, code, text(body))
					continue
				}
				check.Contains(t, answer.Header.Get("Location"), "said=", "%s%s leads to", daemon, a.path)
				want := a.wants
				if strings.Contains(want, "%d") {
					want = fmt.Sprintf(want, id)
				}
				harness.Until(t, func() string {
					if state := s.state(t); !strings.Contains("\n"+state, "\n"+want) {
						return fmt.Sprintf("%s%s by %s: not %q in\n%s", daemon, a.path, who, want, state)
					}
					return ""
				})
				if a.row == "" || targets == "all" || strings.HasSuffix(a.path, "/poke") {
					continue
				}
				theirs := row(a, foreign)
				before := s.state(t)
				ask(t, "POST", page+address(a, theirs), token, a.form)
				check.Equal(t, s.state(t), before, "%s%s by %s of another target's row: … then", daemon, a.path, who)
				ended(theirs)
			}
			ended(id)
		}
	}
	for who, what := range map[string]string{"admin-all": "pause", "run-all": "cancel"} {
		harness.Until(t, func() string {
			if log := jobctl(t, s.worker, "journal", "log", "--by", who); !strings.Contains(log, what) || !strings.Contains(log, who+" (token, ") {
				return fmt.Sprintf("the journal does not have %s by %s:\n%s", what, who, log)
			}
			return ""
		})
	}
}

// A page that only shows does nothing for anybody.
func TestAPageThatOnlyShows(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Settings{"http_read_only": "1"})
	s.db.Insert(t, 1, "mail", "manual")
	before := s.state(t)
	for _, page := range s.at {
		for _, a := range append(slices.Clone(acts), act{path: "/jobs/retry?status=manual"}, act{path: "/jobs/cancel?status=manual"}, act{path: "/failed/retry"}) {
			path := strings.ReplaceAll(a.path, "%d", "1")
			if code, body, _ := ask(t, "POST", page+path, secret, a.form); code != http.StatusForbidden {
				t.Errorf("%s: %d %s", path, code, text(body))
			}
		}
		if body := see(t, page+"/jobs/1"); strings.Contains(body, `href="/jobs/1/cancel"`) {
			t.Errorf("an act is offered: %s", text(body))
		}
	}
	check.Equal(t, s.state(t), before, "something was done: … then")
}

// What matches a filter is what an act is about; and what has changed since it was shown is as it is by then.
func TestActsOnWhatMatches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for id := range int64(6) {
		s.db.Insert(t, id+1, []string{"mail", foreign}[id%2], "manual")
	}
	confirm := see(t, s.at["master"]+"/jobs/cancel?status=manual&target=mail")
	if told := text(confirm); !strings.Contains(told, "Cancel 3 jobs") || strings.Contains(told, foreign) {
		t.Errorf("what will be done: %s", told)
	}
	for _, act := range []string{"cancel", "retry"} { // by words nobody finds rows that wait: all of them would be meant
		address := s.at["master"] + "/jobs/" + act + "?status=manual&target=mail&text=urgent"
		if code, body, _ := ask(t, "POST", address, secret, url.Values{}); code != http.StatusBadRequest || !strings.Contains(text(body), "leave out text") {
			t.Errorf("%s of rows by their words: %d %s", act, code, text(body))
		}
	}
	s.db.AwaitCount(t, 6, "status = 'manual'")
	s.db.Exec(t, "UPDATE jobs SET status = 'ignored' WHERE id = 5")
	if code, body, _ := ask(t, "POST", s.at["master"]+"/jobs/cancel?status=manual&target=mail", secret, url.Values{}); code != http.StatusSeeOther {
		t.Errorf("cancel what matches: %d %s", code, text(body))
	}
	s.db.AwaitCount(t, 3, "status = 'ignored' AND target = 'mail'")
	s.db.AwaitCount(t, 3, "status = 'manual' AND target = ?", foreign)
	if code, body, _ := ask(t, "POST", s.at["master"]+"/jobs/cancel?status=manual&target=mail", secret, url.Values{}); code != http.StatusNotFound {
		t.Errorf("nothing matches any more: %d %s", code, text(body))
	}

	s.insert(t, "mail", 1000)
	s.db.AwaitStatus(t, 1000, "running")
	see(t, s.at["worker"]+"/jobs/1000/signal")
	s.end(t, 1000)
	s.db.AwaitDone(t, 1000)
	if code, body, _ := ask(t, "POST", s.at["worker"]+"/jobs/1000/signal", secret, url.Values{"signal": {"SIGTERM"}}); code != http.StatusConflict {
		t.Errorf("a signal for what has ended meanwhile: %d %s", code, text(body))
	}
	row := s.db.Row(t, 1000)
	check.Equal(t, harness.Text(row.Result), "ok", "the job that has ended: %s", row)
	s.insert(t, foreign, 27)
	s.insert(t, "mail", 37, 8)
	s.db.AwaitCount(t, 3, "id IN (27, 37, 8) AND status = 'done'")
	harness.Until(t, func() string {
		if all := listed(t, s.at["master"], "/jobs?result=fail&target=mail"); len(all) != 1 {
			return fmt.Sprint(all)
		}
		return ""
	})
	if code, body, _ := ask(t, "POST", s.at["master"]+"/jobs/retry?result=fail&target=mail", secret, url.Values{}); code != http.StatusSeeOther {
		t.Errorf("retry what matches: %d %s", code, text(body))
	}
	harness.Until(t, func() string {
		log := jobctl(t, s.worker, "journal", "log", "--kind", "accepted")
		if n := strings.Count(log, "\n"); n != 5 { // 1000, 27, 37 twice, 8
			return fmt.Sprintf("%d were accepted:\n%s", n, log)
		}
		return ""
	})
}

var meant = regexp.MustCompile(`name="meant" value="([^"]*)"`)

// An act is about the jobs that were shown, as they had ended then: not about those that have come since, and a
// form that is sent twice runs a job once.
func TestAnActIsAboutWhatWasShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	form := func(path string) url.Values {
		found := meant.FindStringSubmatch(see(t, s.at["worker"]+path))
		if found == nil {
			t.Fatalf("%s does not say which jobs are meant", path)
		}
		return url.Values{"meant": {html.UnescapeString(found[1])}}
	}
	send := func(path string, form url.Values) (code int) {
		code, _, _ = ask(t, "POST", s.at["worker"]+path, secret, form)
		return code
	}
	s.db.Insert(t, 1, "mail", "manual")
	const all = "/jobs/cancel?status=manual"
	shown := form(all)
	s.db.Insert(t, 2, "mail", "manual")
	check.Equal(t, send(all, shown), http.StatusSeeOther, "cancel")
	s.db.AwaitStatus(t, 1, "ignored")
	s.db.AwaitStatus(t, 2, "manual")

	s.insert(t, "mail", 7)
	s.db.AwaitStatus(t, 7, "done")
	const retry = "/jobs/7/retry"
	shown = form(retry)
	shown.Set("meant", strings.ReplaceAll(shown.Get("meant"), "7-", "7-1")) // as of an end at another time
	check.Equal(t, send(retry, shown), http.StatusConflict, "another end was meant")
	s.db.AwaitStatus(t, 7, "done")
	check.Equal(t, send(retry, form(retry)), http.StatusSeeOther, "retry")
}

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
	for i := range 20 {
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
