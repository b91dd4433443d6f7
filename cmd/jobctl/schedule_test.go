package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/journal"
	"jobd/journal/eventlog"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// A schedule is explained without any daemon.
func TestScheduleIsExplained(t *testing.T) {
	t.Parallel()
	nobody := []string{"JOBCTL_PORT=1"} // no daemon is there
	for args, want := range map[string][]string{
		"schedule daily 02:30 --zone Europe/Berlin -n 2": {
			"daily 02:30\n", "next runs, in Europe/Berlin:\n  Sat 2026-11-21 02:30:00 +01:00  in 13h30m\n  Sun 2026-11-22 02:30:00 +01:00",
			"a time that the clocks skip runs right after the change",
		},
		"schedule every 15m -n 1":        {"next runs, counted from now, in UTC:\n  Fri 2026-11-20 12:15:00 +00:00  in 15m0s\n"},
		"schedule @daily -n 1":           {"Sat 2026-11-21 00:00:00"},
		"@daily schedule daily 02:30":    nil, // a profile, which there is none of
		"schedule -n 1 -- 0 0 13 * fri":  {"Fri 2026-11-27 00:00:00"},
		"schedule yearly 02-29 20:00 -n": nil,
	} {
		got := jobctl{environ: nobody}.run(t, strings.Fields(args)...)
		if want == nil {
			if got.code == 0 {
				t.Errorf("%s: %+v", args, got)
			}
			continue
		}
		for _, text := range want {
			if got.code != 0 || !strings.Contains(got.out, text) {
				t.Errorf("%s: exit code %d, no %q in\n%s%s", args, got.code, text, got.out, got.err)
			}
		}
	}
	got := jobctl{environ: nobody}.run(t, "schedule", "30 2 * * *", "--output", "json", "-n", "1", "--zone", "Europe/Berlin")
	var form scheduleForm
	if err := json.Unmarshal([]byte(got.out), &form); err != nil || len(form.Next) != 1 || form.Next[0].Local != "2026-11-21T02:30:00+01:00" {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestScheduleRefuses(t *testing.T) {
	t.Parallel()
	for args, test := range map[string]struct {
		code int
		want string
	}{
		"dayly 02:30":                {1, "daily 02:30"},
		"daily 02:30 --zone Berlin":  {1, "as Europe/Berlin"},
		"daily 02:30 -n 1001":        {2, `-n: "1001" is not allowed; allowed: a whole number from 0 to 1000`},
		"daily 02:30 -n=-2":          {2, `-n: "-2" is not allowed`},
		"daily 02:30 --list":         {2, "--list takes no schedule"},
		"daily 02:30 --target a":     {2, "--target is for --list"},
		"--list --zone Europe/Paris": {2, "--zone needs a schedule"},
		"@reboot":                    {1, "@reboot"},
	} {
		got := jobctl{}.run(t, append([]string{"schedule"}, strings.Fields(args)...)...)
		if got.code != test.code || !strings.Contains(got.err, test.want) {
			t.Errorf("%s: %+v, want exit code %d and %q", args, got, test.code, test.want)
		}
	}
}

// pages of a worker's answer to recurring.
const (
	recurringFirst = `{"rows": [
		{"job": 5, "target": "mail", "status": "delayed", "schedule": "daily 02:30", "zone": "Europe/Berlin", "run_at": 1795228200, "planned_at": 1795228200, "next": 1795228200, "finished": 1795141800, "result": "fail", "code": 3},
		{"job": 6, "target": "mail", "status": "running", "schedule": "every 5m", "zone": "Europe/Berlin", "next": 1795180000}], "more": true}`
	recurringSecond = `{"rows": [
		{"job": 7, "target": "b", "status": "delayed", "schedule": "dayly", "zone": "UTC", "run_at": 1795228200, "error": "schedule \"dayly\": it has none of the known forms"},
		{"job": 8, "target": "b", "status": "delayed", "schedule": "hourly :15", "zone": "UTC", "run_at": 1795176300, "attempts": 1, "next": 1795180500, "finished": 1795176240, "result": "fail", "signal": "SIGKILL"}]}`
)

func TestRecurringRowsAreListed(t *testing.T) {
	t.Parallel()
	var asked []string
	answers := map[string]any{"status": json.RawMessage(`{"targets": {"mail": {}, "b": {}}}`)}
	d := startTurns(t, answers, "recurring", func(data string) any {
		asked = append(asked, data)
		if len(asked) == 1 {
			return json.RawMessage(recurringFirst)
		}
		return json.RawMessage(recurringSecond)
	})
	got := jobctl{terminal: true, columns: 80}.run(t, "--port", d.port, "schedule")
	for _, line := range []string{
		"JOB | TARGET | SCHEDULE | LAST RUN | NEXT RUN", "5 | mail | daily 02:30 | 02:30:00 | 2026-11-21 02:30:00", "| Europe/Berlin | fail 3 |",
		"6 | mail | every 5m | | runs; then", "7 | b | dayly | | never:", "8 | b | hourly :15 | 12:04:00 | attempt 2 at", "| | | SIGKILL | 12:05:00",
		"jobctl: job 7: schedule \"dayly\": it has none",
	} {
		if got.code != 0 || !strings.Contains(collapsed(got.out)+got.err, line) {
			t.Errorf("exit code %d, no %q in\n%s%s", got.code, line, got.out, got.err)
		}
	}
	for columns, want := range map[int]string{
		120: "5 | mail | daily 02:30 | 02:30:00 | 2026-11-21 02:30:00\n| | Europe/Berlin | fail 3 |",
		80:  "5 | mail | daily 02:30 | 02:30:00 | 2026-11-21 02:30:00\n| | Europe/Berlin | fail 3 |",
	} {
		asked = asked[:0]
		got := jobctl{terminal: true, columns: columns}.run(t, "--port", d.port, "schedule")
		check.Contains(t, collapsed(got.out), want, "in %d columns: %s%s", columns, got.out, got.err)
		for line := range strings.Lines(got.out) {
			if screen.Width(strings.TrimSuffix(line, "\n")) > columns {
				t.Errorf("wider than %d columns: %s", columns, line)
			}
		}
	}
	if len(asked) != 2 || asked[0] != `{}` || asked[1] != `{"after":6}` {
		t.Errorf("asked %q", asked)
	}
	refused := startDaemon(t, "", map[string]any{"status": answers["status"], "recurring": jobnet.Refusal("rows do not recur here: use_columns does not name schedule")})
	if got := (jobctl{}).run(t, "--port", refused.port, "schedule", "--list"); got.code != 1 || !strings.Contains(got.err, "use_columns does not name schedule") {
		t.Errorf("%+v", got)
	}
}

// Of a master's workers those are asked that it takes to have each target once, and others where one
// can't tell.
func TestEachTargetIsAskedOfOneWorker(t *testing.T) {
	t.Parallel()
	const fleet = `{"workers": [
		{"name": "n1", "remoteAddr": "10.0.0.1", "remotePort": 1, "targets": ["a", "b"]},
		{"name": "n2", "remoteAddr": "10.0.0.2", "remotePort": 2, "targets": ["a", "b", "c"]},
		{"name": "n3", "remoteAddr": "10.0.0.3", "remotePort": 3, "targets": ["a", "b", "c", "d"]}], "memoryUsage": {}}`
	var asked []string
	d := startTurns(t, map[string]any{"status": json.RawMessage(fleet)}, "recurring", func(data string) any {
		asked = append(asked, data)
		if strings.Contains(data, "10.0.0.3") {
			return json.RawMessage(`{"workers": [{"name": "n3", "address": "10.0.0.3:3", "error": "the database is away"}]}`)
		}
		return json.RawMessage(`{"workers": [{"name": "n2", "address": "10.0.0.2:2", "data": {"rows": [{"job": 5, "target": "a", "status": "waiting", "schedule": "every 5m", "zone": "UTC", "next": 1795180000}]}}]}`)
	})
	got := jobctl{}.run(t, "--port", d.port, "--master", "schedule", "--list", "--output", "json")
	if got.code != 6 || !strings.Contains(got.out, `"worker":"n2","job":5`) || strings.Count(got.out, `"job":5`) != 1 || !strings.Contains(got.err, "worker 'n3': the database is away") {
		t.Errorf("%+v", got)
	}
	if len(asked) != 2 || !strings.Contains(asked[0], `"targets":["a","b","c","d"]`) || !strings.Contains(asked[1], `"targets":["a","b","c"]`) {
		t.Errorf("asked %q", asked)
	}
}

const delayedRows = `{"rows": [{"job": 5, "target": "mail", "status": "delayed"}, {"job": 6, "target": "mail", "status": "done"}, {"job": 7, "target": "b", "status": "delayed"}]}`

func TestRunNow(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"journal-rows": json.RawMessage(delayedRows), "journal-anchor": json.RawMessage(`{"seq": 1, "hash": ""}`), "status": json.RawMessage(`{"targets": {}}`),
		"run-now": json.RawMessage(`{"jobs": {"5": 1795228200}, "errors": {"7": "job 7 is locked by somebody else"}}`),
	})
	want := output{
		code: 1, out: "JOB  TARGET  WAS DUE\n5    mail    2026-11-21 02:30:00\n",
		err: "jobctl: job 6: it is not delayed but done: jobctl retry has it run once more\njobctl: job 7 is locked by somebody else\njobctl: job 8: the table has no such row\n" +
			"jobctl: job 9: the table has no such row\n",
	}
	jobctl{}.expect(t, d, want, "run-now", "5", "6", "b:7", "8", "x:9")
	found := false
	for _, asked := range d.asked() {
		found = found || asked == `run-now {"ids":[5,7]}`
	}
	if !found {
		t.Errorf("asked %q", d.asked())
	}
	want = output{
		code: 1, out: `{"jobs":{"5":1795228200},"errors":{"7":"job 7 is locked by somebody else"}}` + "\n",
		err: "jobctl: job 7 is locked by somebody else\n",
	}
	jobctl{}.expect(t, d, want, "run-now", "5", "7", "--output", "json")
}

// What waits for a target that nobody serves gets no slot.
func TestRunNowOfWhatWaits(t *testing.T) {
	t.Parallel()
	const serves = `{"targets": {"mail": {"concurrency": 1}}}`
	d := startDaemon(t, "", map[string]any{
		"journal-rows":   json.RawMessage(`{"rows": [{"job": 5, "target": "mail", "status": "waiting"}, {"job": 6, "target": "fax", "status": "waiting"}]}`),
		"journal-anchor": json.RawMessage(`{"seq": 1, "hash": ""}`), "status": json.RawMessage(serves),
	})
	want := output{code: 1, err: "jobctl: job 5: it is not delayed: it waits already (jobctl why 5 says for what)\n" +
		"jobctl: job 6: it is not delayed: it waits already (jobctl why 6 says for what)\n"}
	jobctl{}.expect(t, d, want, "run-now", "5", "6")
}

// Where no row is delayed nobody is asked to change anything; wrong words are told before.
func TestRunNowOfWhatIsNotDelayed(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"journal-rows": json.RawMessage(delayedRows), "journal-anchor": json.RawMessage(`{"seq": 1, "hash": ""}`), "status": json.RawMessage(`{"targets": {}}`),
	})
	want := output{code: 1, err: "jobctl: job 5: its target is 'mail', not 'b'\njobctl: job 6: it is not delayed but done: jobctl retry has it run once more\n"}
	jobctl{}.expect(t, d, want, "run-now", "b:5", "6")
	got := jobctl{}.run(t, "--port", d.port, "run-now", "7")
	if got.code != 1 || !strings.Contains(got.err, "because it is an older jobd, or the original") {
		t.Errorf("%+v", got)
	}
	if got := (jobctl{}).run(t, "run-now"); got.code != 2 || !strings.Contains(got.err, "needs at least one job") {
		t.Errorf("%+v", got)
	}
}

// All jobs of a target are cancelled after a question, or with --yes; --dry-run only lists them.
func TestCancelOfATarget(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"unfinished":     json.RawMessage(`{"jobs": [7, 5, 5]}`),
		"journal-anchor": json.RawMessage(`{"seq": 1, "hash": ""}`), "status": json.RawMessage(`{"targets": {}}`),
		"cancel": json.RawMessage(`{"jobs": {"5": {"state": "ignored", "target": "mail"}, "7": {"state": "ignored", "target": "mail"}}}`),
	})
	list := "JOB  TARGET\n5    mail\n7    mail\n"
	jobctl{}.expect(t, d, output{out: list}, "cancel", "--target", "mail", "--waiting", "--dry-run")
	if got := (jobctl{}).run(t, "--port", d.port, "cancel", "--target", "mail"); got.code != 2 || !strings.Contains(got.err, "2 jobs of target mail would be cancelled. There is no terminal to ask at") {
		t.Errorf("%+v", got)
	}
	for _, asked := range d.asked() {
		if strings.HasPrefix(asked, "cancel ") {
			t.Errorf("asked %q without a yes", asked)
		}
	}
	want := "JOB  TARGET  BECAME\n5    mail    ignored: it will not run\n7    mail    ignored: it will not run\n"
	jobctl{}.expect(t, d, output{out: want}, "cancel", "--target", "mail", "--yes")
	asked := strings.Join(d.asked(), "\n")
	if !strings.Contains(asked, `unfinished {"target":"mail","waiting":true}`) || !strings.Contains(asked, `"targets":{"5":"mail","7":"mail"}`) {
		t.Errorf("asked %s", asked)
	}
	for _, args := range [][]string{{"cancel", "--waiting", "5"}, {"cancel", "--target", "mail", "5"}} {
		if got := (jobctl{}).run(t, args...); got.code != 2 {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// setBack makes a journal of a clock that was set back: all its events bear one time. Job 1 ran for 3 s, as measured; of job 2
// nothing was measured; the end of job 3, an hour later, nobody saw; job 4 is of an older version, and ran for 2 s.
func setBack(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	now := begin.Add(time.Second)
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, Now: func() time.Time { return now }}))(t)
	zero := 0
	life := func(job int64, target string, takes time.Duration, done journal.Done) {
		appendAll(
			t, j,
			journal.Draft{Job: job, Payload: journal.Accepted{Target: target, Token: "@token"}},
			journal.Draft{Job: job, Payload: journal.Running{Attempt: 1}},
		)
		now = now.Add(takes)
		appendAll(t, j, journal.Draft{Job: job, Payload: done})
	}
	life(1, "measured", -time.Hour, journal.Done{Result: "ok", Code: &zero, Elapsed: 3_000_000})
	life(2, "older", 0, journal.Done{Result: "ok", Code: &zero})
	now = begin.Add(time.Second)
	life(3, "lost", time.Hour, journal.Done{Result: "fail", Reason: "outcome unknown: the worker and its runner were killed"})
	life(4, "plain", 2*time.Second, journal.Done{Result: "ok", Code: &zero})
	must.Do(t, j.Close())
	return dir
}

// How long a job ran is shown as it was measured; what is not known is shown as not known, never as 0.
func TestHowLongJobsRan(t *testing.T) {
	t.Parallel()
	dir := setBack(t)
	for job, want := range map[string]string{
		"1": "\nwaited  not known\nran     3s\nin all  not known\n",
		"2": "\nran     not known\nin all  not known\n",
		"3": "\nran     not known\nin all  1h0m0s\n",
		"4": "\nran     2s\nin all  2s\n",
	} {
		if got := (jobctl{}).run(t, "journal", "show", job, "--journal", dir); got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("show %s: exit code %d, %s, want%s", job, got.code, got.out, want)
		}
	}
	if got := (jobctl{}).run(t, "journal", "log", "--job=1", "-n=1", "--journal", dir); !strings.HasSuffix(got.out, "result=ok code=0 stdout=0 stderr=0 elapsed=3s\n") {
		t.Errorf("log: %s", got.out)
	}
	for _, format := range []string{"jsonl", "csv"} {
		got := jobctl{}.run(t, "journal", "export", "--format", format, "--journal", dir)
		if text := strings.ReplaceAll(got.out, `""`, `"`); strings.Count(text, `"elapsed":3000000`) != 1 || strings.Contains(text, `"elapsed":0`) {
			t.Errorf("export as %s:\n%s", format, got.out)
		}
	}
}
