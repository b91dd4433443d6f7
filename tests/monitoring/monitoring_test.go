package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
	if text := get(t, s.small.http, "/readyz"); !strings.Contains(text, "\njournal since ") {
		t.Errorf("the worker without room says %q", text)
	}
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
		if n := len(pattern.FindAllString(rules, -1)); n != change.times {
			t.Errorf("%s is %d times in the rules, want %d", change.what, n, change.times)
		}
		rules = pattern.ReplaceAllString(rules, change.by)
	}
	return rules
}

// Each alert of the rules fires above; one that is added is to be made to fire, too.
func TestEveryAlertIsMadeToFire(t *testing.T) {
	t.Parallel()
	source := must.Get(os.ReadFile("monitoring_test.go"))(t)
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
