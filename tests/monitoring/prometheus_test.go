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
	"strings"
	"testing"

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
	if err := cmd.Start(); err != nil {
		t.Fatalf("start prometheus (make deps installs it): %v", err)
	}
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
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
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
