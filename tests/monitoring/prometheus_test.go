package monitoring

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// prometheus is a server of the test's own.
type prometheus struct{ address string }

// startPrometheus starts one that scrapes these addresses each second, by job, with some rules.
func startPrometheus(t *testing.T, jobs map[string][]string, rules string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n")
	for job, targets := range jobs {
		list := must.Get(json.Marshal(targets))(t)
		fmt.Fprintf(&config, "- job_name: %s\n  static_configs:\n  - targets: %s\n", job, list)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), config.String())
	write(t, filepath.Join(dir, "rules.yml"), rules)
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
	p := &prometheus{address: "127.0.0.1:" + harness.FreePort(t)}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--log.level=error")
	output := must.Get(os.Create(filepath.Join(dir, "output")))(t)
	cmd.Stdout, cmd.Stderr = output, output
	must.Do(t, cmd.Start(), "start prometheus (make deps installs it)")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		output.Close()
		if said, _ := os.ReadFile(output.Name()); t.Failed() {
			t.Logf("prometheus wrote:\n%s", said)
		}
	})
	harness.Until(t, func() string {
		answer, err := http.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return "prometheus: " + answer.Status
		}
		return ""
	})
	return p
}

// ask asks its API.
func (p *prometheus) ask(t *testing.T, path string, query url.Values, into any) {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	text := get(t, p.address, "/api/v1/"+path+"?"+query.Encode())
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s %v: %s, %v", path, query, text, err)
	}
	must.Do(t, json.Unmarshal(answer.Data, into), "%s", text)
}

// value is the one number that a query gives; ok is false where there is none.
func (p *prometheus) value(t *testing.T, query string) (text string, ok bool) {
	t.Helper()
	var found struct{ Result []struct{ Value [2]any } }
	p.ask(t, "query", url.Values{"query": {query}}, &found)
	if len(found.Result) != 1 {
		return "", false
	}
	return fmt.Sprint(found.Result[0].Value[1]), true
}

// alert is one that is pending or fires.
type alert struct {
	State  string
	Labels map[string]string
}

// awaitAlert waits until an alert fires that has these labels.
func (p *prometheus) awaitAlert(t *testing.T, name string, labels map[string]string, meanwhile ...func()) {
	t.Helper()
	harness.Until(t, func() string {
		for _, do := range meanwhile {
			do()
		}
		var found struct{ Alerts []alert }
		p.ask(t, "alerts", nil, &found)
		for _, a := range found.Alerts {
			if a.Labels["alertname"] == name && a.State == "firing" && has(a.Labels, labels) {
				return ""
			}
		}
		return fmt.Sprintf("alert %s with %v does not fire; there are %v", name, labels, found.Alerts)
	})
}

func has(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return true
}

// get gives the body of an answer, whatever its code.
func get(t *testing.T, address, path string) string {
	t.Helper()
	answer := must.Get(http.Get("http://" + address + path))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	return string(body)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// promtool runs Prometheus' own judge, which must have nothing to say.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	promtoolOn(t, "", args...)
}

func promtoolOn(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s (make deps installs it): %v\n%s", strings.Join(args, " "), err, out)
	}
}

// metricName is what may be a metric's name in a query, or in the documentation.
var metricName = regexp.MustCompile(`\b(?:jobd|process|go)_[a-z_]+\b|\bup\b`)

// namesOf is the names in the text of a scrape: of a histogram also those of its parts.
func namesOf(scraped string) map[string]bool {
	names := map[string]bool{"up": true}
	for _, line := range regexp.MustCompile(`# TYPE (\S+) (\S+)`).FindAllStringSubmatch(scraped, -1) {
		names[line[1]] = true
		if line[2] == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				names[line[1]+part] = true
			}
		}
	}
	return names
}

// documented compares the page with what daemons tell: the tables have all of jobd's own metrics,
// and no other.
func documented(t *testing.T, told map[string]bool) {
	t.Helper()
	page := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", "monitoring.md")))(t)
	known := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`jobd_") {
			for _, name := range metricName.FindAllString(cells[1], -1) {
				known[name] = true
			}
		}
	}
	for name := range told {
		part := strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
		if strings.HasPrefix(name, "jobd_") && !part && !known[name] {
			t.Errorf("docs/monitoring.md does not have %s", name)
		}
	}
	for name := range known {
		if !told[name] && name != "jobd_jobs_waiting_oldest_seconds" && name != "jobd_registered" {
			t.Errorf("docs/monitoring.md has %s, and no daemon tells it", name)
		}
	}
}

// dashboard looks whether the dashboard is valid, and asks only for what is there: each query names
// metrics that daemons tell, and Prometheus understands it.
func dashboard(t *testing.T, p *prometheus, told map[string]bool) {
	t.Helper()
	var board struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	text := packaged(t, "grafana-dashboard.json")
	must.Do(t, json.Unmarshal([]byte(text), &board))
	var queries []string
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	if len(queries) < 30 {
		t.Errorf("the dashboard has %d queries", len(queries))
	}
	for _, query := range append(queries, rulesOf(t)...) {
		names := metricName.FindAllString(query, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", query)
		}
		for _, name := range names {
			if !told[name] {
				t.Errorf("%s: no daemon tells %s", query, name)
			}
		}
	}
	for _, query := range queries {
		query = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$target", ".*").Replace(query)
		var ignored any
		p.ask(t, "query", url.Values{"query": {query}}, &ignored)
	}
	for _, variable := range board.Templating.List {
		for _, name := range metricName.FindAllString(variable.Definition, -1) {
			if !told[name] {
				t.Errorf("%s: no daemon tells %s", variable.Definition, name)
			}
		}
	}
}

// rulesOf is the expressions of the alerts.
func rulesOf(t *testing.T) (list []string) {
	t.Helper()
	rules := packaged(t, "jobd.rules.yml")
	for _, expr := range regexp.MustCompile(`(?s)expr: (.*?)\n        (?:for|labels):`).FindAllStringSubmatch(rules, -1) {
		list = append(list, expr[1])
	}
	check.Equal(t, strings.Count(rules, "- alert:"), len(list), "expressions were found")
	return list
}

func packaged(t *testing.T, name string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(harness.Top(), "packaging", "monitoring", name)))(t)
	return string(content)
}

// One Prometheus scrapes four workers and a master. Each has another misfortune.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	workers := []string{s.busy.http, s.failing.http, s.away.http, s.small.http}
	p := startPrometheus(t, map[string][]string{"jobd": workers, "jobd-master": {s.master.http}}, shortened(t, packaged(t, "jobd.rules.yml")))
	harness.Until(t, func() string {
		if up, _ := p.value(t, "sum(up)"); up != "5" {
			return "of 5 daemons, so many are scraped: " + up
		}
		return ""
	})
	for _, d := range []*daemon{s.busy, s.master} {
		promtoolOn(t, get(t, d.http, "/metrics"), "check", "metrics")
	}
	told := namesOf(get(t, s.busy.http, "/metrics") + get(t, s.master.http, "/metrics"))
	documented(t, told)
	dashboard(t, p, told)
	fire(t, s, p)
}

// fire has each alert fire, for its reason.
func fire(t *testing.T, s *site, p *prometheus) {
	of := func(d *daemon) map[string]string { return map[string]string{"instance": d.http} }
	target := func(name string) map[string]string { return map[string]string{"target": name} }

	s.add(t, s.away, "w", 1)
	s.runs(t, "w")
	s.link.Refuse(true) // away loses its database while a job runs, which ends meanwhile
	s.link.Cut()
	s.open(t, "w")
	s.add(t, s.busy, "held", 1)
	s.lock(t, s.runs(t, "held")) // the row of a job of busy, which ends meanwhile, is held
	s.open(t, "held")
	s.add(t, s.busy, "a", 200) // one of which runs; the others wait since an hour ago
	s.add(t, s.failing, "f", 20)
	harness.Dial(t, s.master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"nobody"}})

	p.awaitAlert(t, "JobdOldestTooOld", target("a"))
	s.add(t, s.busy, "a", 200)
	p.awaitAlert(t, "JobdJobsFail", target("f"))
	p.awaitAlert(t, "JobdDatabaseAway", of(s.away))
	p.awaitAlert(t, "JobdNotReady", of(s.away))
	p.awaitAlert(t, "JobdMirrorLags", of(s.away))
	p.awaitAlert(t, "JobdRowsSetAside", of(s.busy))
	p.awaitAlert(t, "JobdNotRunSince", target("held"))
	p.awaitAlert(t, "JobdTargetUnserved", of(s.master))
	p.awaitAlert(t, "JobdRunnerAway", of(s.failing), func() { s.failing.killRunner(t) })
	p.awaitAlert(t, "JobdExecutorUnready", map[string]string{"instance": s.busy.http, "target": "broken", "mode": "fork"})
	s.breakLauncher(t)
	p.awaitAlert(t, "JobdExecutorFailing", map[string]string{"instance": s.busy.http, "target": "renewed", "mode": "pool"})
	p.awaitAlert(t, "JobdJournalDiskLow", of(s.small), func() { s.fill(t) })
	p.awaitAlert(t, "JobdJournalDiskFull", of(s.small), func() { s.fill(t) })
	p.awaitAlert(t, "JobdBacklogGrows", target("a"))

	if text := get(t, s.away.http, "/readyz"); !strings.HasPrefix(text, "not ready\ndatabase since ") {
		t.Errorf("the worker without its database says %q", text)
	}
	check.Contains(t, get(t, s.small.http, "/readyz"), "\njournal since ", "the worker without room says")
	for _, d := range []*daemon{s.away, s.small, s.master} {
		if text := get(t, d.http, "/healthz"); text != "healthy\n" {
			t.Errorf("a misfortune that passes is no matter of the process, which says %q", text)
		}
	}
	s.failing.Kill(t)
	s.master.Kill(t)
	p.awaitAlert(t, "JobdWorkerGone", of(s.failing))
	p.awaitAlert(t, "JobdMasterGone", of(s.master))
}

// shortened is the rules with less patience. What it replaces is there, so that no alert is made
// to fire by a rule that nobody has.
func shortened(t *testing.T, rules string) string {
	t.Helper()
	for _, change := range []struct {
		what, by string
		times    int
	}{
		{`for: \d+m\n`, "for: 0s\n", 14},
		{`\[(15m|6h)\]`, "[30s]", 5},
		{`jobd_mirror_lag_seconds > 60`, "jobd_mirror_lag_seconds > 1", 1},
		{`aside_oldest_seconds > 900`, "aside_oldest_seconds > 1", 1},
		{`nightly\|backup`, "held", 1},
		{`> 26 \* 3600`, "> 1", 1},
		{`unserved_oldest_seconds > 300`, "unserved_oldest_seconds > 1", 1},
	} {
		pattern := regexp.MustCompile(change.what)
		check.Equal(t, len(pattern.FindAllString(rules, -1)), change.times, "%s is … times in the rules", change.what)
		rules = pattern.ReplaceAllString(rules, change.by)
	}
	return rules
}

// Each alert of the rules fires above; one that is added is to be made to fire, too.
func TestEveryAlertIsMadeToFire(t *testing.T) {
	t.Parallel()
	source := must.Get(os.ReadFile("prometheus_test.go"))(t)
	page := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", "monitoring.md")))(t)
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(packaged(t, "jobd.rules.yml"), -1)
	tests := packagedTests(t)
	for _, a := range alerts {
		if !strings.Contains(string(source), fmt.Sprintf("awaitAlert(t, %q", a[1])) {
			t.Errorf("alert %s is not made to fire", a[1])
		}
		if !regexp.MustCompile("alertname: " + a[1] + `\b`).MatchString(tests) {
			t.Errorf("alert %s is not among promtool's tests", a[1])
		}
		if !strings.Contains(string(page), "\n| `"+a[1]+"` | ") {
			t.Errorf("docs/monitoring.md does not say what to do about %s", a[1])
		}
	}
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
}

func packagedTests(t *testing.T) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join("testdata", "rules.test.yml")))(t)
	return string(content)
}

// The rules as they are shipped fire when they should, and not before, by Prometheus' own judge.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", filepath.Join(harness.Top(), "packaging", "monitoring", "jobd.rules.yml"))
	promtool(t, "test", "rules", filepath.Join("testdata", "rules.test.yml"))
}
