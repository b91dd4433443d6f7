package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestRunManual(t *testing.T) {
	t.Parallel()
	const (
		good   = `{"jobs": {"5": {"result": "ok", "code": 0, "signal": null, "stdout": "out 5\n", "stderr": "hint"}}}`
		bad    = `{"jobs": {"5": {"result": "fail", "code": 7, "signal": null, "stdout": "", "stderr": "bad\n"}}}`
		killed = `{"jobs": {"5": {"result": "fail", "code": null, "signal": "SIGTERM", "stdout": "", "stderr": ""}}}`
		mixed  = `{"jobs": {"5": {"result": "ok", "code": 0, "signal": null, "stdout": "no newline", "stderr": ""},
		           "6": {"result": "fail", "code": 7, "signal": null, "stdout": "", "stderr": "bad"}},
		           "errors": {"7": "job 7 not found"}}`
	)
	for name, test := range map[string]struct {
		args, answer, asked string
		want                output
	}{
		"one job, as it printed": {
			"5", good, `{"ids":[5]}`,
			output{out: "out 5\n", err: "hint"},
		},
		"through a master": {
			"--master a/b:c:5", good, `{"jobs":[{"id":5,"target":"a/b:c"}]}`,
			output{out: "out 5\n", err: "hint"},
		},
		"duplicates count once": {
			"5 5", good, `{"ids":[5]}`,
			output{out: "out 5\n", err: "hint"},
		},
		"a failed job": {
			"5", bad, `{"ids":[5]}`,
			output{code: 1, err: "bad\njobctl: job 5: exit code 7\n"},
		},
		"a killed job": {
			"5", killed, `{"ids":[5]}`,
			output{code: 1, err: "jobctl: job 5: killed by SIGTERM\n"},
		},
		"several jobs, each with its head": {
			"6 5 7", mixed, `{"ids":[6,5,7]}`,
			output{
				code: 1,
				out:  "==> job 6: exit code 7 <==\n==> job 5: ok <==\nno newline\n",
				err:  "==> job 6: exit code 7 <==\nbad\njobctl: job 6: exit code 7\njobctl: job 7: the table has no such row\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, "", map[string]any{"run-manual": json.RawMessage(test.answer)})
			jobctl{}.expect(t, d, test.want, append([]string{"run-manual"}, strings.Fields(test.args)...)...)
			check.Equal(t, strings.Join(d.asked(), "\n"), "run-manual "+test.asked, "asked …, want %s", test.asked)
		})
	}
	t.Run("as JSON, with the same exit code", func(t *testing.T) {
		t.Parallel()
		d := startDaemon(t, "", map[string]any{"run-manual": json.RawMessage(bad)})
		got := jobctl{}.run(t, "--port", d.port, "--output", "json", "run-manual", "5")
		if got.code != 1 || !sameJSON(t, got.out, bad) || got.err != "jobctl: job 5: exit code 7\n" {
			t.Errorf("%+v", got)
		}
	})
}

// A terminal that shows both streams shows the head of a job once.
func TestRunManualOnATerminal(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"run-manual": json.RawMessage(`{"jobs": {
		"5": {"result": "fail", "code": 3, "stdout": "out\n", "stderr": "bad\n"}, "6": {"result": "ok", "code": 0, "stdout": "", "stderr": ""}}}`)})
	want := output{code: 1, out: "==> job 5: exit code 3 <==\nout\n==> job 6: ok <==\n", err: "bad\njobctl: job 5: exit code 3\n"}
	jobctl{terminal: true}.expect(t, d, want, "run-manual", "5", "6")
}

func TestSendSignal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args, answer, asked string
		want                output
	}{
		"to a worker": {
			"TERM 5 6", `{"5": true, "6": true}`, `{"jobs":{"5":15,"6":15}}`,
			output{out: "JOB  SIGNAL   DELIVERED\n5    SIGTERM  yes\n6    SIGTERM  yes\n"},
		},
		"to a master": {
			"--master 9 a:5", `{"5": true}`, `{"jobs":[{"id":5,"signal":9,"target":"a"}]}`,
			output{out: "JOB  SIGNAL   DELIVERED\n5    SIGKILL  yes\n"},
		},
		"not running": {
			"35 5", `{"5": false}`, `{"jobs":{"5":35}}`,
			output{code: 1, out: "JOB  SIGNAL  DELIVERED\n5    35      no\n", err: "jobctl: job 5: not running, or no such signal\n"},
		},
		"a target that nobody serves": {
			"--master TERM a:5 x:6", `{"5": true, "errors": {"6": "worker serving target 'x' not found"}}`,
			`{"jobs":[{"id":5,"signal":15,"target":"a"},{"id":6,"signal":15,"target":"x"}]}`,
			output{
				code: 1, out: "JOB  SIGNAL   DELIVERED\n5    SIGTERM  yes\n6    SIGTERM  no\n",
				err: "jobctl: job 6: no worker serves target 'x'\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, "", map[string]any{"send-signal": json.RawMessage(test.answer)})
			jobctl{}.expect(t, d, test.want, append([]string{"send-signal"}, strings.Fields(test.args)...)...)
			check.Equal(t, strings.Join(d.asked(), "\n"), "send-signal "+test.asked, "asked …, want %s", test.asked)
		})
	}
}

func TestParseSignal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"TERM": 15, "SIGTERM": 15, "sigterm": 15, "15": 15, "0": 0, "KILL": 9, "USR1": 10,
		"64": 64, "SIG34": 34,
	} {
		check.Equal(t, must.Get(parseSignal(text))(t), want, "parseSignal(%s) =", text)
	}
	for _, text := range []string{"", "SIG", "NOPE", "65", "-1", "1.5", "RTMIN", "RTMIN+1", "TERM "} {
		if got, err := parseSignal(text); err == nil {
			t.Errorf("parseSignal(%q) = %d, want an error", text, got)
		} else if !strings.Contains(err.Error(), "allowed: names such as TERM") {
			t.Errorf("parseSignal(%q): %v, want what is allowed", text, err)
		}
	}
}

// An id suffices, also for a master: the target is the row's. One that is given must be that.
func TestTargetsOfJobsAreLookedUp(t *testing.T) {
	t.Parallel()
	const rows = `{"name": "node-1", "rows": [{"job": 5, "target": "mail", "status": "manual"}]}`
	relayed := func(data string) json.RawMessage {
		return json.RawMessage(`{"workers": [{"name": "node-1", "address": "10.0.0.1:1", "data": ` + data + `}]}`)
	}
	anchor := json.RawMessage(`{"seq": 1, "hash": "` + strings.Repeat("00", 32) + `"}`)
	ran := json.RawMessage(`{"jobs": {"5": {"result": "ok", "stdout": "out 5\n"}}, "errors": {}}`)
	sent := json.RawMessage(`{"5": true}`)
	for args, test := range map[string]struct {
		want  output
		asked string
	}{
		"--master run-manual 5":         {output{out: "out 5\n"}, `run-manual {"jobs":[{"id":5,"target":"mail"}]}`},
		"--master send-signal TERM 5":   {output{out: "JOB  SIGNAL   DELIVERED\n5    SIGTERM  yes\n"}, `send-signal {"jobs":[{"id":5,"signal":15,"target":"mail"}]}`},
		"run-manual mail:5":             {output{out: "out 5\n"}, `run-manual {"ids":[5]}`},
		"run-manual video:5":            {output{code: exit.NoJob, err: "jobctl: job 5: its target is 'mail', not 'video'\n"}, ""},
		"--master run-manual 5 mail:5":  {output{code: exit.Usage, err: "jobctl: run-manual: job 5 is named twice, with different targets\n"}, ""},
		"--master send-signal TERM 5 7": {output{code: exit.NoJob, err: "jobctl: job 7: the table has no such row\n"}, ""},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			answers := map[string]any{
				"status": json.RawMessage(workerAnswer), "journal-anchor": anchor, "journal-rows": json.RawMessage(rows), "run-manual": ran, "send-signal": sent,
			}
			if strings.HasPrefix(args, "--master") {
				answers["status"], answers["journal-anchor"], answers["journal-rows"] = json.RawMessage(masterAnswer), relayed(string(anchor)), relayed(rows)
			}
			d := startDaemon(t, "", answers)
			jobctl{}.expect(t, d, test.want, strings.Fields(args)...)
			asked := d.asked()
			if last := strings.Join(asked[max(0, len(asked)-1):], ""); test.asked != "" && last != test.asked {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

// The ids that tables have and that many a program rounds or refuses.
var farIDs = []string{"-5", "-1", "9007199254740991", "9007199254740993", "9223372036854775807", "-9007199254740993", "-9223372036854775808"}

// onWire is an id as net.Whole writes it.
func onWire(id string) string {
	if len(strings.TrimPrefix(id, "-")) < roundable || id == "9007199254740991" {
		return id
	}
	return `"` + id + `"`
}

func TestEveryIDReachesTheDaemonExactly(t *testing.T) {
	t.Parallel()
	for _, id := range farIDs {
		d := startDaemon(t, "", map[string]any{
			"run-manual":  json.RawMessage(`{"jobs": {"` + id + `": {"result": "ok", "code": 0, "stdout": "out", "stderr": ""}}}`),
			"send-signal": json.RawMessage(`{"` + id + `": true}`),
		})
		jobctl{}.expect(t, d, output{out: "out"}, "run-manual", id)
		jobctl{}.expect(t, d, output{out: "out"}, "run-manual", "--", id)
		jobctl{}.expect(t, d, output{out: "out"}, "--master", "run-manual", "a:"+id)
		if got := (jobctl{}).run(t, "--port", d.port, "send-signal", "TERM", id); got.code != 0 || !strings.Contains(got.out, "\n"+id+" ") {
			t.Errorf("send-signal %s: %+v", id, got)
		}
		if got := (jobctl{}).run(t, "--port", d.port, "--master", "send-signal", "TERM", "a:"+id); got.code != 0 {
			t.Errorf("send-signal a:%s: %+v", id, got)
		}
		want := []string{
			`run-manual {"ids":[` + onWire(id) + `]}`, `run-manual {"ids":[` + onWire(id) + `]}`, `run-manual {"jobs":[{"id":` + onWire(id) + `,"target":"a"}]}`,
			`send-signal {"jobs":{"` + id + `":15}}`, `send-signal {"jobs":[{"id":` + onWire(id) + `,"signal":15,"target":"a"}]}`,
		}
		check.Equal(t, strings.Join(d.asked(), "\n"), strings.Join(want, "\n"), "asked")
	}
}

func TestEveryIDInAJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	for _, id := range farIDs {
		var job int64
		must.Do(t, json.Unmarshal([]byte(id), &job))
		appendAll(t, j, journal.Draft{Job: job, Payload: journal.Ignored{Reason: "why " + id}})
	}
	must.Do(t, j.Close())
	for _, id := range farIDs {
		for _, args := range []string{"show ID", "show -- ID", "log --job ID", "log --job=ID"} {
			got := jobctl{}.run(t, append([]string{"journal", "--journal", dir}, strings.Fields(strings.ReplaceAll(args, "ID", id))...)...)
			if got.code != 0 || !strings.Contains(got.out, "why "+id) || strings.Count(got.out, "why ") != 1 {
				t.Errorf("journal %s: %+v", strings.ReplaceAll(args, "ID", id), got)
			}
		}
		for _, command := range []string{"show", "state", "export", "log"} {
			args := []string{"journal", command, "--journal", dir, "--output=json"}
			if command == "show" {
				args = append(args, id)
			}
			if got := (jobctl{}).run(t, args...); got.code != 0 || !strings.Contains(got.out, `"job":`+onWire(id)+`,`) {
				t.Errorf("journal %s, as JSON: no %s in %+v", command, onWire(id), got)
			}
		}
	}
}

// A wait that begins while the table is away goes on when it is back, and says once why it waits.
func TestAWaitBegunInAnOutage(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	away := jobnet.Refusal("the database could not be reached")
	port := listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return json.RawMessage(workerAnswer), nil
		},
		"journal-rows": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			if asked.Add(1) < 3 {
				return nil, away
			}
			return json.RawMessage(`{"name": "node-1", "rows": [{"job": 7, "target": "mail", "status": "done", "result": "ok"}]}`), nil
		},
	}})
	got := jobctl{}.run(t, "--port", port, "wait", "7")
	if got.code != exit.Success || strings.Count(got.err, string(away)) != 1 || !strings.Contains(got.err, "waiting until this is over") {
		t.Errorf("%+v, after %d questions", got, asked.Load())
	}
}

// What waiting does not mend ends it at once; what it would mend, with the time that was given.
func TestWhatAWaitDoesNotOutlast(t *testing.T) {
	t.Parallel()
	status, rows := json.RawMessage(workerAnswer), json.RawMessage(`{"name": "node-1", "rows": []}`)
	for name, test := range map[string]struct {
		port string
		args string
		code int
		want string
	}{
		"no such job":    {startDaemon(t, "", map[string]any{"status": status, "journal-rows": rows}).port, "", exit.NoJob, "job 7: the table has no such row"},
		"an older peer":  {startDaemon(t, "", map[string]any{"status": status}).port, "", exit.Failure, "older jobd"},
		"a password":     {startDaemon(t, "s3cret", map[string]any{"status": status}).port, "", exit.Failure, "a password or token is needed"},
		"no master":      {startDaemon(t, "", map[string]any{"status": status}).port, "--master ", exit.Failure, "this is a worker, not a master"},
		"nobody is here": {closedPort(t), "--timeout 300ms ", exit.Late, "connection refused; waiting until this is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			got := jobctl{}.run(t, strings.Fields(test.args+"--port "+test.port+" wait 7")...)
			if got.code != test.code || !strings.Contains(got.err, test.want) {
				t.Errorf("after %v: %+v", time.Since(begun), got)
			}
		})
	}
}
