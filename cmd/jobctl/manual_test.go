package main

import (
	"encoding/json"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
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
			if got := strings.Join(d.asked(), "\n"); got != "run-manual "+test.asked {
				t.Errorf("asked %s, want %s", got, test.asked)
			}
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
				err: "jobctl: job 6: worker serving target 'x' not found\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, "", map[string]any{"send-signal": json.RawMessage(test.answer)})
			jobctl{}.expect(t, d, test.want, append([]string{"send-signal"}, strings.Fields(test.args)...)...)
			if got := strings.Join(d.asked(), "\n"); got != "send-signal "+test.asked {
				t.Errorf("asked %s, want %s", got, test.asked)
			}
		})
	}
}

func TestParseSignal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"TERM": 15, "SIGTERM": 15, "sigterm": 15, "15": 15, "0": 0, "KILL": 9, "USR1": 10,
		"64": 64, "SIG34": 34,
	} {
		if got, err := parseSignal(text); err != nil || got != want {
			t.Errorf("parseSignal(%s) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "SIG", "NOPE", "65", "-1", "1.5", "RTMIN", "RTMIN+1", "TERM "} {
		if got, err := parseSignal(text); err == nil {
			t.Errorf("parseSignal(%q) = %d, want an error", text, got)
		} else if !strings.Contains(err.Error(), "allowed are names such as TERM") {
			t.Errorf("parseSignal(%q): %v, want what is allowed", text, err)
		}
	}
}

// A job that is not run is told in the daemon's words, which are the original's.
func TestRowsThatAreNotRun(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{"run-manual": json.RawMessage(`{"errors": {
		"5": "status = waiting != manual", "6": "target 'x' not found (job id=6)", "8": "job 8 not found"}}`)})
	want := "jobctl: job 5: status = waiting != manual\njobctl: job 6: target 'x' not found (job id=6)\njobctl: job 8: the table has no such row\n"
	jobctl{}.expect(t, d, output{code: 1, err: want}, "run-manual", "5", "6", "8")
	asJSON := jobctl{}.run(t, "--port", d.port, "--output=json", "run-manual", "5", "6", "8")
	if asJSON.code != 1 || asJSON.err != want || !strings.Contains(asJSON.out, `"5":"status = waiting != manual"`) {
		t.Errorf("as JSON: %+v", asJSON)
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
