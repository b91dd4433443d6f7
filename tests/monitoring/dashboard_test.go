package monitoring

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
	if strings.Count(rules, "- alert:") != len(list) {
		t.Errorf("%d expressions were found", len(list))
	}
	return list
}
