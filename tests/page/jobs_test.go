package page

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var idOf = regexp.MustCompile(`^\d+`)

// ids are those of a list, in its order.
func ids(all []string) (list []string) {
	for _, line := range all {
		list = append(list, idOf.FindString(line))
	}
	return list
}

// Each filter alone, and each two of them, find what was inserted.
func TestFilters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	type job struct{ status, target, result, code, text string }
	jobs := map[int64]job{}
	for id := int64(1); id <= 20; id++ {
		if id == 5 {
			continue
		}
		j := job{"done", []string{"mail", foreign}[id%2], "ok", "0", fmt.Sprintf("word%d", id)}
		if id%10 == 7 {
			j.result, j.code = "fail", "7"
		}
		jobs[id] = j
		s.insert(t, j.target, id)
	}
	s.insert(t, "mail", 1000)
	jobs[1000] = job{"running", "mail", "", "", ""}
	s.db.AwaitCount(t, len(jobs)-1, "status = 'done'")
	s.db.AwaitStatus(t, 1000, "running")
	filters := []struct {
		name, value string
		has         func(job) bool
	}{
		{"status", "done", func(j job) bool { return j.status == "done" }},
		{"status", "running", func(j job) bool { return j.status == "running" }},
		{"target", "mail", func(j job) bool { return j.target == "mail" }},
		{"worker", "w1", func(job) bool { return true }},
		{"result", "fail", func(j job) bool { return j.result == "fail" }},
		{"result", "ok", func(j job) bool { return j.result == "ok" }},
		{"code", "7", func(j job) bool { return j.code == "7" }},
		{"since", "1h", func(job) bool { return true }},
		{"until", "1h", func(job) bool { return false }},
		{"text", "word17", func(j job) bool { return j.text == "word17" }},
		{"text", "writt*", func(j job) bool { return j.text != "" }},
	}
	for i, one := range filters {
		for _, other := range filters[i:] {
			if one.name == other.name && one.value != other.value {
				continue
			}
			var want []string
			for _, id := range slices.Sorted(maps.Keys(jobs)) {
				if one.has(jobs[id]) && other.has(jobs[id]) {
					want = append(want, fmt.Sprint(id))
				}
			}
			slices.Sort(want)
			query := "/jobs?" + url.Values{one.name: {one.value}, other.name: {other.value}}.Encode()
			harness.Until(t, func() string { // the index follows
				got := ids(listed(t, s.at["master"], query))
				if slices.Sort(got); !slices.Equal(got, want) {
					return fmt.Sprintf("%s: %v, not %v", query, got, want)
				}
				return ""
			})
		}
	}
	s.end(t, 1000)
	for _, bad := range []string{"status=x", "code=256", "code=x", "since=x", "until=x", "result=x"} {
		if code, body, _ := ask(t, "GET", s.at["master"]+"/jobs?"+bad, secret, nil); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, text(body))
		}
	}
}

// Page by page each job comes once, of the table and of the index, also while others come in.
func TestPagesGiveEachOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.db.InsertMany(t, 250, "mail", "manual")
	for id := int64(301); id <= 550; id++ {
		s.db.Insert(t, id, "mail", "waiting")
	}
	s.poll(t, "mail")
	s.db.AwaitCount(t, 250, "status = 'done'")
	harness.Until(t, func() string {
		if n := len(listed(t, s.at["worker"], "/jobs?status=done")); n != 250 {
			return fmt.Sprintf("%d jobs, not 250", n)
		}
		return ""
	})
	for path, first := range map[string]int64{"/jobs?status=manual": 1, "/jobs?status=done": 301} {
		seen, next, comes := map[string]int{}, path, int64(1)
		for next != "" {
			body := see(t, s.at["master"]+next)
			for _, row := range rowOfJob.FindAllStringSubmatch(body, -1) {
				seen[row[1]]++
			}
			older := olderAddress.FindStringSubmatch(body)
			if next = ""; older != nil {
				next = strings.ReplaceAll(older[1], "&amp;", "&")
			}
			s.db.Insert(t, first*10_000+comes, "mail", "manual")
			s.insert(t, "mail", 600+first+comes*2)
			comes++
		}
		for id := first; id < first+250; id++ {
			check.Equal(t, seen[fmt.Sprint(id)], 1, "%s: job %d came … times", path, id)
		}
	}
}

// A download is what the job wrote, byte by byte.
func TestDownload(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert(t, "mail", 5, 7)
	s.db.AwaitCount(t, 2, "status = 'done'")
	for daemon, page := range s.at {
		code, body, answer := ask(t, "GET", page+"/jobs/5/output/stdout", secret, nil)
		if code != http.StatusOK || body != string(s.bytes) {
			t.Errorf("%s: %d, %d bytes, not %d", daemon, code, len(body), len(s.bytes))
		}
		if how := answer.Header.Get("Content-Disposition"); !strings.HasPrefix(how, "attachment") {
			t.Errorf("%s: it is shown: %q", daemon, how)
		}
		if code, body, _ := ask(t, "GET", page+"/jobs/7/output/stderr", secret, nil); code != http.StatusOK || body != "trouble\n" {
			t.Errorf("%s: stderr: %d %q", daemon, code, body)
		}
		for _, path := range []string{"/jobs/99/output/stdout", "/jobs/5/output/x", "/jobs/x/output/stdout"} {
			if code, _, _ := ask(t, "GET", page+path, secret, nil); code != http.StatusNotFound {
				t.Errorf("%s%s: %d", daemon, path, code)
			}
		}
	}
}

// What a job needed stands beside what others of its target usually need: time, processor time and memory.
func TestWhatIsUsual(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.insert(t, "mail", 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51)
	for daemon, page := range s.at {
		harness.Until(t, func() string {
			if found := ids(listed(t, page, "/jobs?result=ok")); len(found) != 12 {
				return fmt.Sprintf("%s: the index has %v", daemon, found)
			}
			return ""
		})
		told := text(see(t, page+"/jobs/44"))
		for _, want := range []string{`ran \d[^·]* · usually \d`, `processor time \d[^·]* · usually \d`, `memory (6\d|7\d) MiB · usually \d+ MiB, at most \d+ MiB for 9 of 10`} {
			if !regexp.MustCompile(want).MatchString(told) {
				t.Errorf("%s: no %s in %s", daemon, want, told)
			}
		}
	}
}

// Who looks on is sent what changes, until the credential is gone.
func TestALookEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for daemon, page := range s.at {
		request := must.Get(http.NewRequestWithContext(harness.Bounded(t), http.MethodGet, page+"/targets", http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+s.tokens["read-all"])
		request.Header.Set("Accept", "text/event-stream")
		answer := must.Get(http.DefaultTransport.RoundTrip(request))(t)
		defer answer.Body.Close()
		lines, paused := bufio.NewScanner(answer.Body), false
		lines.Buffer(nil, 1<<20)
		for begun := false; !paused && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: ") && !begun {
				begun = true
				if code, body, _ := ask(t, "POST", page+"/targets/mail/pause", secret, url.Values{}); code != http.StatusSeeOther {
					t.Fatalf("%s: %d %s", daemon, code, text(body))
				}
			}
			paused = strings.Contains(lines.Text(), "paused")
		}
		if !paused {
			t.Errorf("%s: the change was not sent: %v", daemon, lines.Err())
		}
		ask(t, "POST", page+"/targets/mail/continue", secret, url.Values{})
		people := must.Get(os.ReadFile(s.people))(t)
		gone := regexp.MustCompile(`(?m)^read-all .*\n`).ReplaceAll(people, nil)
		must.Do(t, os.WriteFile(s.people+".new", gone, 0o600))
		must.Do(t, os.Rename(s.people+".new", s.people))
		began := time.Now()
		for lines.Scan() {
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: the look has outlived its credential by %v", daemon, took)
		}
		must.Do(t, os.WriteFile(s.people+".new", people, 0o600))
		must.Do(t, os.Rename(s.people+".new", s.people))
		harness.Until(t, func() string {
			for _, other := range s.at {
				if code, _, _ := ask(t, "GET", other+"/targets", s.tokens["read-all"], nil); code != http.StatusOK {
					return "the line has yet to be read"
				}
			}
			return ""
		})
	}
}
