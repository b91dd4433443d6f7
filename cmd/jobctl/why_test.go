package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/store/storetest/check"
)

const explainedJobs = `{"name":"node-1","mark":"aaaa","targets":["mail"],"jobs":[
  {"job":5,"row":{"target":"mail","status":"waiting","stdout":{"size":0},"stderr":{"size":0}},"ahead":{"rows":40},
   "target":{"name":"mail","concurrency":2,"running":2}},
  {"job":6,"row":{"target":"mail","status":"done","finished":1795168923,"started":1795168920,"result":"fail","code":3,
   "stdout":{"size":0},"stderr":{"size":8,"tail":"no mail\n"}}},
  {"job":7}]}`

func TestWhy(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "explain": json.RawMessage(explainedJobs)})
	jobctl{}.expect(t, worker, output{
		4, "job 5 waits behind 40 jobs of its target: all 2 slots of target mail are in use, on node-1\n" +
			"job 6 failed with exit code 3 at 10:02, after 3s: no mail\n" +
			"job 7: the table has no such row\n", "",
	}, "why", "5", "mail:6", "7", "5")
	jobctl{}.expect(t, worker, output{
		0, `{"job":5,"reason":"waiting","sentence":"job 5 waits behind 40 jobs of its target: all 2 slots of target mail are in use, on node-1"}` + "\n", "",
	}, "--output=json", "why", "5")
	jobctl{}.expect(t, worker, output{4, "job 6 is one of target mail, not of pics\n", ""}, "why", "pics:6")
	want := `explain {"ids":[5,6,7],"output":true}`
	asked := worker.asked()
	check.Equal(t, asked[1], want, "asked %q", asked)
}

// Each worker's answer counts; who can't answer is named, and hides nobody's.
func TestWhyOfAFleet(t *testing.T) {
	t.Parallel()
	unknown := "unknown request type: 'explain'"
	relayed := fmt.Sprintf(`{"workers":[{"name":"old","address":"10.0.0.3:1","error":%q},{"name":"node-2","address":"10.0.0.2:1","error":"no answer within 8s"},
		{"name":"node-1","address":"10.0.0.1:1","data":%s}]}`, unknown, explainedJobs)
	master := startDaemon(t, "", map[string]any{"status": json.RawMessage(masterAnswer), "explain": json.RawMessage(relayed)})
	got := jobctl{}.run(t, "--port", master.port, "--master", "why", "5")
	if got.code != 0 || got.out != "job 5 waits behind 40 jobs of its target: all 2 slots of target mail are in use, on node-1; "+
		"old perhaps serves it, and does not say; node-2 perhaps serves it, and does not answer\n" {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.err, "worker 'node-2': no answer within 8s") || !strings.Contains(got.err, "worker 'old': it can't report this, because it is an older jobd, or the original") {
		t.Errorf("%s", got.err)
	}
}

// A peer that does not know the question says so itself.
func TestWhyOfAnOldWorker(t *testing.T) {
	t.Parallel()
	old := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "explain": jobnet.Refusal("unknown request type: 'explain'").With(jobnet.CodeUnknown),
	})
	for _, command := range []string{"why", "show"} {
		got := jobctl{}.run(t, "--port", old.port, command, "5")
		if got.code != 1 || got.out != "" || !strings.Contains(got.err, "it can't report this, because it is an older jobd, or the original") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// Every command says that it came to the wrong daemon, and asks that one for nothing.
func TestTheWrongDaemonIsNamed(t *testing.T) {
	t.Parallel()
	const isMaster = "jobctl: 127.0.0.1:PORT: this is a master, not a worker: use --master, or give the worker's --host and --port\n"
	const isWorker = "jobctl: 127.0.0.1:PORT: this is a worker, not a master: omit --master, or give the master's --host and --port\n"
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
		"pause":                   {"pause a x", detailed, output{1, "ok\n", "jobctl: no worker serves target 'x'\njobctl: no worker serves target 'y\\x1b'\n"}},
		"continue":                {"continue a x", detailed, output{1, "ok\n", "jobctl: no worker serves target 'x'\njobctl: no worker serves target 'y\\x1b'\n"}},
		"poke":                    {"poke a x", detailed, output{0, "ok\n", "jobctl: no worker serves target 'x' now" + kept + "jobctl: no worker serves target 'y\\x1b' now" + kept}},
		"no worker at all":        {"pause", `{"result": "ok", "unserved": [], "workers": 0}`, output{1, "", "jobctl: pause: no worker is registered with the master: nothing was done\n"}},
		"nobody serves it":        {"pause x", `{"result": "ok", "unserved": ["x"], "workers": 0}`, output{1, "", "jobctl: no worker serves target 'x'\n"}},
		"nobody, a poke":          {"poke x", `{"result": "ok", "unserved": ["x"], "workers": 0}`, output{0, "ok\n", "jobctl: no worker serves target 'x' now" + kept}},
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

// Of a job that another worker runs nothing is in its row yet, and it is not said that there is.
func TestTailOfAJobOfAWorkerThatWasNotAsked(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"running": "its worker was not asked, or does not answer",
		"done":    "the row has what is left",
	} {
		d := startDaemon(t, "", map[string]any{
			"status": json.RawMessage(workerAnswer), "output": json.RawMessage(`{"job": 7, "state": "unknown"}`),
			"journal-rows": json.RawMessage(`{"name": "node-1", "rows": [{"job": 7, "target": "mail", "status": "` + status + `"}]}`),
		})
		got := jobctl{}.run(t, "--port", d.port, "tail", "7")
		if got.code != 1 || !strings.Contains(got.err, "job 7: ") || !strings.Contains(got.err, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// What nobody's journal tells of any more stands in the row, whose end is shown.
func TestTailOfAJobThatOnlyItsRowKnows(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "output": json.RawMessage(`{"job": 7, "state": "unknown"}`),
		"journal-rows": json.RawMessage(`{"name": "node-1", "rows": [{"job": 7, "target": "mail", "status": "done"}]}`),
		"explain": json.RawMessage(`{"name": "node-1", "jobs": [{"job": 7, "row": {"target": "mail", "status": "done",
			"stdout": {"size": 1009, "tail": "one\ntwo\n"}, "stderr": {"size": 4, "tail": "bad\n"}}}]}`),
	})
	for args, want := range map[string]output{
		"tail 7": {0, "one\ntwo\n", "jobctl: job 7: no journal that was read has its end; this is from its row\n" +
			"jobctl: 1,001 bytes of stdout before these are in the row only\nbad\n"},
		"tail -f -n 1 7": {0, "two\n", "jobctl: job 7: no journal that was read has its end; this is from its row\n" +
			"jobctl: 1,001 bytes of stdout before these are in the row only\nbad\n"},
		"tail --output=json 7": {0, `{"job":7,"state":"ended","running":false,"stdout":{"at":1001,"bytes":"b25lCnR3bwo=","size":1009,"skipped":1001},` +
			`"stderr":{"at":0,"bytes":"YmFkCg==","size":4},"row":true}` + "\n", ""},
	} {
		jobctl{}.expect(t, d, want, strings.Fields(args)...)
	}
}

// A table that can't be read now has its exit code, whatever was asked of it.
func TestATableThatIsAwayHasItsExitCode(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "recurring": jobnet.Refusal("the database is away since 2026-11-20T11:00:00Z: refused"),
		"unfinished":   jobnet.Refusal("rows of target 'a' can't be listed now: refused"),
		"cancel":       json.RawMessage(`{"jobs": {}, "errors": {"7": "job 7 was not cancelled: nobody is known to have it, and the database could not be reached"}}`),
		"journal-diff": json.RawMessage(`{"name": "node-1", "cursor": "c"}`), "journal-reapply": json.RawMessage(`{"name": "node-1", "cursor": "c"}`),
		"journal-next": json.RawMessage(`{"items": [], "more": false, "error": "the table can't be read now; the worker's log says why"}`),
	})
	for _, args := range []string{"schedule --list", "journal diff", "journal reapply --dry-run", "cancel 7", "cancel --target a --dry-run"} {
		if got := (jobctl{}).run(t, append([]string{"--port", d.port}, strings.Fields(args)...)...); got.code != 6 || got.err == "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// Regression: show told nothing of what a job had written that was running.
func TestShowOfAJobThatRuns(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "journal-events": json.RawMessage(`{"name": "node-1", "cursor": "c"}`),
		"journal-next": json.RawMessage(`{"items": [], "more": false}`),
		"explain": json.RawMessage(`{"name": "node-1", "jobs": [{"job": 7, "here": {"phase": "running", "since": 1795168920000},
			"row": {"target": "mail", "status": "running", "stdout": {"size": 3, "tail": "old"}, "stderr": {"size": 0}}}]}`),
		"output": json.RawMessage(fmt.Sprintf(`{"job": 7, "state": "running", "running": true, "stdout": {"at": 0, "bytes": %q, "size": 44}, "stderr": {"at": 0, "size": 0}}`,
			base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a\n", 21)+"b\n")))),
	})
	got := jobctl{}.run(t, "--port", d.port, "show", "7")
	want := "\n\nstdout: 44 bytes; the last 20 lines, all of it: jobctl tail 7\n" + strings.Repeat("a\n", 19) + "b\n"
	if got.code != 0 || !strings.HasSuffix(got.out, want) || strings.Contains(got.out, "old") {
		t.Errorf("%+v", got)
	}
	if asked := d.asked(); asked[len(asked)-1] != `output {"job":7,"stdout":-65536,"stderr":-65536}` {
		t.Errorf("asked %q", asked)
	}
}

// Rows that were ignored because of what they say are in no list of failures, and are told beside it.
func TestFailedTellsOfRowsWithMistakes(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "journal-events": json.RawMessage(`{"name": "node-1", "cursor": "c", "understood": ["result", "last_line"]}`),
		"journal-anchor": json.RawMessage(`{"seq": 1, "hash": "` + strings.Repeat("0f", 32) + `"}`),
		"journal-next":   json.RawMessage(`{"items": [], "more": false}`),
		"jobs": json.RawMessage(`{"jobs": [{"key": "7.3", "job": 9, "status": "ignored", "at": 7, "reason": "schedule \"dayly\": it has none"},
			{"key": "6.2", "job": 8, "status": "ignored", "at": 6, "reason": "cancelled by 10.0.0.5"}]}`),
	})
	got := jobctl{}.run(t, "--port", d.port, "failed", "--target", "a")
	if want := `jobctl: rows that were ignored for a mistake of their own: 1, the newest: job 9: schedule "dayly": it has none; jobctl journal`; got.code != 0 || !strings.HasPrefix(got.err, want) {
		t.Errorf("%+v", got)
	}
	if asked := d.asked(); !strings.HasPrefix(asked[len(asked)-1], `jobs {"targets":["a"],"status":"ignored","since":1795089600000}`) {
		t.Errorf("asked %q", asked)
	}
}
