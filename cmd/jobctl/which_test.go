package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every command says that it came to the wrong daemon, and asks that one for nothing.
func TestTheWrongDaemonIsNamed(t *testing.T) {
	t.Parallel()
	const isMaster = "jobctl: 127.0.0.1:PORT: this is a master, not a worker: use --master, or give the worker's --host and --port\n"
	const isWorker = "jobctl: 127.0.0.1:PORT: this is a worker, not a master: leave --master away, or give the master's --host and --port\n"
	done := map[string]any{"status": nil, "journal-anchor": nil, "journal-events": nil}
	for _, typ := range []string{"poll", "poke", "pause", "continue", "recycle", "add-target", "remove-target", "set-target-concurrency", "restart", "run-manual", "send-signal"} {
		done[typ] = "ok"
	}
	serving := func(status string) *daemon {
		answers := map[string]any{}
		for typ, answer := range done {
			answers[typ] = answer
		}
		answers["status"] = json.RawMessage(status)
		return startDaemon(t, "", answers)
	}
	empty := `{"workers": [], "memoryUsage": {}}`
	for _, master := range []*daemon{serving(masterAnswer), serving(empty)} {
		for _, args := range []string{
			"list-targets", "status", "memory-usage", "poll", "poll a", "pause", "pause a", "continue", "recycle", "recycle a", "add-target a 1", "remove-target a",
			"set-target-concurrency a 1", "restart", "run-manual 5", "send-signal TERM 5", "journal log", "journal show 5", "journal state",
			"journal verify", "journal diff", "journal reapply", "journal anchor", "journal export", "journal stats",
		} {
			for _, form := range []string{"table", "json"} {
				jobctl{}.expect(t, master, output{code: 1, err: isMaster}, append([]string{"--output", form}, strings.Fields(args)...)...)
			}
		}
		expectOnlyStatus(t, master)
	}
	for _, worker := range []*daemon{serving(workerAnswer), serving(`{"targets": {}, "jobPromisesCount": 0, "memoryUsage": {}}`)} {
		for _, args := range []string{
			"list-workers", "status", "memory-usage", "poke a", "pause", "continue a", "run-manual a:5", "send-signal TERM a:5",
			"journal log", "journal show 5", "journal verify", "journal anchor",
		} {
			for _, form := range []string{"table", "json"} {
				jobctl{}.expect(t, worker, output{code: 1, err: isWorker}, append([]string{"--master", "--output", form}, strings.Fields(args)...)...)
			}
		}
		expectOnlyStatus(t, worker)
	}
}

func expectOnlyStatus(t *testing.T, d *daemon) {
	t.Helper()
	for _, asked := range d.asked() {
		if !strings.HasPrefix(asked, "status ") {
			t.Errorf("the wrong daemon was asked: %s", asked)
		}
	}
}

// A wrong password is told as ever, by whichever request comes first.
func TestAWrongPasswordIsToldOnce(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "secret", map[string]any{"poll": "ok", "status": json.RawMessage(workerAnswer)})
	refused := output{code: 1, err: "jobctl: 127.0.0.1:PORT: invalid password\n"}
	jobctl{environ: []string{"JOBCTL_PASSWORD=wrong"}}.expect(t, d, refused, "poll")
	jobctl{environ: []string{"JOBCTL_PASSWORD=secret"}}.expect(t, d, output{out: "ok\n"}, "poll")
}

func TestTargetsThatNobodyServes(t *testing.T) {
	t.Parallel()
	const detailed = `{"result": "ok", "unserved": ["x", "y\u001b"], "workers": 2}`
	const kept = "; the poke is kept until one does\n"
	for name, test := range map[string]struct {
		args, answer string
		want         output
	}{
		"all served":              {"pause a", `{"result": "ok", "unserved": [], "workers": 2}`, output{out: "ok\n"}},
		"pause":                   {"pause a x", detailed, output{1, "ok\n", "jobctl: target 'x': no worker serves it\njobctl: target 'y\\x1b': no worker serves it\n"}},
		"continue":                {"continue a x", detailed, output{1, "ok\n", "jobctl: target 'x': no worker serves it\njobctl: target 'y\\x1b': no worker serves it\n"}},
		"poke":                    {"poke a x", detailed, output{0, "ok\n", "jobctl: target 'x': no worker serves it now" + kept + "jobctl: target 'y\\x1b': no worker serves it now" + kept}},
		"no worker at all":        {"pause", `{"result": "ok", "unserved": [], "workers": 0}`, output{1, "", "jobctl: pause: no worker is registered with the master: nothing was done\n"}},
		"nobody serves it":        {"pause x", `{"result": "ok", "unserved": ["x"], "workers": 0}`, output{1, "", "jobctl: target 'x': no worker serves it\n"}},
		"nobody, a poke":          {"poke x", `{"result": "ok", "unserved": ["x"], "workers": 0}`, output{0, "ok\n", "jobctl: target 'x': no worker serves it now" + kept}},
		"an older master":         {"pause x", `"ok"`, output{out: "ok\n"}},
		"an older master, a poke": {"poke x", `"ok"`, output{out: "ok\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(test.args)
			d := startDaemon(t, "", map[string]any{words[0]: json.RawMessage(test.answer)})
			jobctl{}.expect(t, d, test.want, append([]string{"--master"}, words...)...)
			if asked := d.asked(); len(asked) != 1 || !strings.Contains(asked[0], `"detail":true`) {
				t.Errorf("asked %q", asked)
			}
			asJSON := jobctl{}.run(t, append([]string{"--master", "--output=json", "--port", d.port}, words...)...)
			if !sameJSON(t, asJSON.out, test.answer) || asJSON.code != test.want.code || asJSON.err != test.want.err {
				t.Errorf("as JSON: %+v", asJSON)
			}
		})
	}
}
