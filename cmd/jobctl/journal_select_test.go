package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Which jobs journal state shows, from a folder and through a worker that is too old to select.
func TestJournalStateSelects(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	all := jobctl{}.run(t, "journal", "state", "--journal", dir, "--output=json")
	old := startDaemon(t, "", map[string]any{
		"status":         json.RawMessage(`{"targets": {}, "memoryUsage": {}}`),
		"journal-anchor": json.RawMessage(`{"seq": 17, "hash": "` + strings.Repeat("00", 32) + `"}`),
		"journal-state":  json.RawMessage(`{"name": "node-1", "cursor": "c"}`),
		"journal-next":   json.RawMessage(fmt.Sprintf(`{"items": [%s], "more": false}`, strings.ReplaceAll(strings.TrimSpace(all.out), "\n", ","))),
	})
	for args, want := range map[string]string{
		"":                                     "5 6 8 9 7",
		"-n 2":                                 "9 7",
		"-n 20000":                             "5 6 8 9 7",
		"--target a":                           "5 9 7",
		"--target a -n 2":                      "9 7",
		"--since 2026-11-20T10:00:10Z":         "6 8 9 7",
		"--since 2026-11-20T10:00:10.1Z":       "8 9 7",
		"--since 2026-11-20T10:00:13Z -n 1":    "9",
		"--status done --target b":             "6",
		"--target nobody's":                    "",
		"--at 2026-11-20T10:00:09Z --target b": "6",
	} {
		for _, from := range [][]string{{"--journal", dir}, {"--port", old.port}} {
			if strings.Contains(args, "--at") && from[0] == "--port" {
				continue // an older worker knows that one
			}
			got := jobctl{}.run(t, append(append([]string{"journal", "state", "--output=json"}, strings.Fields(args)...), from...)...)
			var ids []string
			for line := range strings.Lines(got.out) {
				var job struct{ Job json.Number }
				must.Do(t, json.Unmarshal([]byte(line), &job))
				ids = append(ids, job.Job.String())
			}
			if strings.Join(ids, " ") != want || got.code != 0 || got.err != "" {
				t.Errorf("%s %s: jobs %q, want %s; %+v", args, from[0], ids, want, got)
			}
		}
	}
	if asked := strings.Join(old.asked(), "\n"); !strings.Contains(asked, `"target":"a","last":2`) || !strings.Contains(asked, `"since":"2026-11-20T10:00:13Z"`) {
		t.Errorf("the worker was not asked to select: %s", asked)
	}
	for args, want := range map[string]string{
		"-n=-1": `-n: "-1" is not allowed; allowed: a whole number of at least 0`,
		"--since 2026-11-20T10:00:10Z --at 2026-11-20T10:00:09Z": "journal state: --since is not before --at",
	} {
		got := jobctl{}.run(t, append([]string{"journal", "state", "--journal", dir}, strings.Fields(args)...)...)
		check.Equal(t, got, (output{code: 2, err: "jobctl: " + want + "\n"}), "%s", args)
	}
}

// Rows that were pruned are no difference, if that is wanted: then the exit code watches the others.
func TestJournalDiffIgnoresDeletedRows(t *testing.T) {
	t.Parallel()
	differences := func(items string) *daemon {
		return startDaemon(t, "", map[string]any{
			"status":       json.RawMessage(`{"targets": {}, "memoryUsage": {}}`),
			"journal-diff": json.RawMessage(`{"name": "node-1", "cursor": "c"}`), // an older worker tells of all
			"journal-next": json.RawMessage(`{"items": [` + items + `], "more": false}`),
		})
	}
	const (
		done    = `{"job": 1, "cause": "changed", "want": {"job": 1, "status": "done"}, "found": null}`
		ignored = `{"job": 2, "cause": "changed", "want": {"job": 2, "status": "ignored"}, "found": null}`
		running = `{"job": 3, "cause": "changed", "want": {"job": 3, "status": "running"}, "found": null}`
		edited  = `{"job": 4, "cause": "changed", "want": {"job": 4, "status": "done"}, "found": {"job": 4, "status": "waiting"}}`
		foreign = `{"job": 5, "cause": "changed", "want": null, "found": null}`
	)
	for name, test := range map[string]struct {
		items    string
		all, few string // the ids that are shown
	}{
		"pruned":       {done + "," + ignored, "1 2", ""},
		"under way":    {done + "," + running, "1 3", "3"},
		"edited":       {edited + "," + ignored, "4 2", "4"},
		"not its own":  {foreign, "5", "5"},
		"nothing else": {"", "", ""},
	} {
		d := differences(test.items)
		for flag, want := range map[string]string{"": test.all, "--ignore-deleted": test.few} {
			got := jobctl{}.run(t, append([]string{"--port", d.port, "journal", "diff"}, strings.Fields(flag)...)...)
			var ids []string
			for i, line := range strings.Split(strings.TrimSpace(got.out), "\n") {
				if i > 0 {
					ids = append(ids, strings.Fields(line)[1])
				}
			}
			code := 0
			if want != "" {
				code = 1
			}
			if strings.Join(ids, " ") != want || got.code != code {
				t.Errorf("%s %s: jobs %q, want %s; %+v", name, flag, ids, want, got)
			}
		}
		if asked := strings.Join(d.asked(), "\n"); !strings.Contains(asked, `journal-diff {"ignore_deleted":true}`) {
			t.Errorf("%s: the worker was not asked: %s", name, asked)
		}
	}
}

// endsOf is a page of ends, as a worker hands them out.
func endsOf(t *testing.T, more ...journal.Event) history.Page {
	t.Helper()
	three := 3
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	done := func(result string, line string) journal.Payload {
		return journal.Done{Result: result, Code: &three, Stderr: journal.Output{Kept: []byte("first\n" + line + "\n"), Size: 20}}
	}
	events := append([]journal.Event{
		{Seq: 1, Time: at, Job: 1, Payload: done("fail", "broken")},
		{Seq: 2, Time: at.Add(time.Second), Job: 2, Payload: done("ok", "well")},
		{Seq: 3, Time: at.Add(2 * time.Second), Job: 3, Payload: done("fail", "broken \x1b[2J")},
		{Seq: 4, Time: at.Add(3 * time.Second), Job: 4, Payload: done("ok", "well")},
	}, more...)
	page := history.Page{}
	for _, e := range events {
		text := must.Get(json.Marshal(history.Event{Event: e}))(t)
		page.Items = append(page.Items, text)
	}
	return page
}

// A worker of an older version passes over what it does not know, and would hand out all: that is said.
func TestAnOlderWorkerThatPassesOverAResult(t *testing.T) {
	t.Parallel()
	older := startDaemon(t, "", map[string]any{
		"journal-events": api.Opened{Name: "node-1", Cursor: "c"}, "journal-next": endsOf(t), "journal-close": "ok",
		"journal-anchor": history.AnchorAnswer{Seq: 4, Hash: strings.Repeat("0f", 32)},
		"status":         map[string]any{"targets": map[string]any{}},
	})
	for args, fields := range map[string]string{"journal log --result fail -n 1": "result", "failed": "result and last_line"} {
		got := jobctl{}.run(t, append([]string{"--port", older.port}, strings.Fields(args)...)...)
		if want := "it can't select events by " + fields + ", because it is an older jobd"; got.code != 1 || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
}

// An original worker can't tell, which is said, and hides nothing.
func TestAnOriginalWorkerCanNotTellWhatFailed(t *testing.T) {
	t.Parallel()
	original := startDaemon(t, "", map[string]any{"status": map[string]any{"targets": map[string]any{}}})
	for _, args := range []string{"failed", "retry --failed --yes", "retry 5", "wait 5 --timeout 5s"} {
		got := jobctl{}.run(t, append([]string{"--port", original.port}, strings.Fields(args)...)...)
		if got.code != 1 || !strings.Contains(got.err, "because it is an older jobd, or the original") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestWrongUsageOfRetry(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"retry":                     "needs at least one job, as ID or TARGET:ID",
		"retry --failed 5":          "IDs and --failed are not allowed together",
		"retry 5 --code 3":          "are for --failed",
		"retry --failed --code 256": `"256" is not allowed; allowed: a whole number from 0 to 255`,
		"retry x":                   `job "x" is not allowed; allowed: ID or TARGET:ID`,
		"wait :5":                   `job ":5" is not allowed`,
		"failed -n -3":              `-n: "-3" is not allowed`,
		"failed 5":                  "takes no arguments",
		"journal log --result bad":  `--result: "bad" is not allowed; allowed: ok, fail`,
	} {
		if got := (jobctl{}).run(t, strings.Fields(args)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want exit code 2 and %q", args, got, want)
		}
	}
}

func TestJournalShow(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	want := `job 5

2026-11-20 10:00:02.000000  claimed by web-1 from the table, for target a, with token @tokenfive
2026-11-20 10:00:03.000000  attempt 1 starts, after it waited 1s
2026-11-20 10:00:04.000000  started as process 100
2026-11-20 10:00:05.000000  ended: exit code 7

waited  1s
ran     2s
in all  3s

stdout: 3 bytes
out

stderr: 9000 bytes
bad

[jobd: output cut, 9000 bytes in all]
`
	if got := (jobctl{}).run(t, "journal", "show", "5", "--journal", dir); got != (output{out: want}) {
		t.Errorf("exit code %d, stderr %q, stdout:\n%s\nwant:\n%s", got.code, got.err, got.out, want)
	}
	running := `job 7

2026-11-20 10:00:11.000000  claimed by web-1 from the table, for target a, with token @tokenseve
2026-11-20 10:00:12.000000  attempt 1 starts, after it waited 1s

waited  1s
`
	check.Equal(t, (jobctl{}).run(t, "journal", "show", "7", "--journal", dir), (output{out: running}), "job 7")
	unknown := output{code: 4, err: "jobctl: job 99: no journal knows it\n"}
	check.Equal(t, (jobctl{}).run(t, "journal", "show", "99", "--journal", dir), unknown, "job 99")
	asJSON := jobctl{}.run(t, "journal", "show", "5", "--journal", dir, "--output=json")
	if strings.Count(asJSON.out, "\n") != 4 || !strings.Contains(asJSON.out, `"stdout":"out","stderr":"bad\n"`) {
		t.Errorf("as JSON: %+v", asJSON)
	}
}

func TestJournalVerify(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	got := jobctl{}.run(t, "journal", "verify", "--journal", dir)
	if got.code != 0 || !strings.HasPrefix(got.out, "verified: 17 events, the last of 2026-11-20 10:00:17.000000 with hash ") {
		t.Errorf("sound: %+v", got)
	}

	path := filepath.Join(dir, "segment-00000001.db")
	content := must.Get(os.ReadFile(path))(t)
	must.Equal(t, bytes.Count(content, []byte("@tokenseve")), 1, "event 11 is not in the file as expected")
	must.Do(t, os.WriteFile(path, bytes.Replace(content, []byte("@tokenseve"), []byte("@tokenevil"), 1), 0o600))
	got = jobctl{}.run(t, "journal", "verify", "--journal", dir)
	const says = "not as it was written: sound up to event 10\nfirst bad sequence number: 11\n"
	if got.code != 1 || got.out != says || !strings.Contains(got.err, "damaged at event 11: its hash does not match its content and the event before it") {
		t.Errorf("altered: %+v", got)
	}
	got = jobctl{}.run(t, "journal", "verify", "--journal", dir, "--output=json")
	if got.code != 1 || !strings.Contains(got.out, `"first_bad":11`) || !strings.Contains(got.out, `"ok":false`) || !strings.Contains(got.out, `"events":10`) {
		t.Errorf("altered, as JSON: %+v", got)
	}
}

// longWaits makes a journal whose first segment retention has removed. Job 1 was claimed and started there, and job 2 claimed;
// both end later. Job 3's row was created 601 s before its claim, job 4's within the same second, job 5 is manual. The row of
// job 3 is lost after its job's end.
func longWaits(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	now := begin
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{
		Dir: dir, SegmentAge: time.Second, Retention: 10 * time.Second, Now: func() time.Time { return now },
	}))(t)
	one := func(second int, job int64, payload journal.Payload) {
		now = begin.Add(time.Duration(second) * time.Second)
		appendAll(t, j, journal.Draft{Job: job, Payload: payload})
	}
	created := func(before time.Duration) int64 { return now.Add(-before).Unix() }
	ok := journal.Done{Result: "ok"}
	one(1, 1, journal.Accepted{Target: "early", Token: "@1", Created: created(time.Hour)})
	one(1, 2, journal.Accepted{Target: "early", Token: "@2", Created: created(time.Hour)})
	one(1, 1, journal.Running{Attempt: 1})
	one(3, 0, journal.Opened{Name: "node-1"})
	one(5, 1, ok)
	one(6, 2, journal.Running{Attempt: 1})
	one(8, 2, ok)
	one(9, 3, journal.Accepted{Target: "waited", Token: "@3", Created: created(600 * time.Second)}) // the clock still says 8
	one(9, 3, journal.Running{Attempt: 1})
	one(10, 3, ok)
	one(10, 4, journal.Accepted{Target: "at once", Token: "@4", Created: created(0)})
	one(10, 4, journal.Running{Attempt: 1})
	one(11, 4, ok)
	one(11, 5, journal.Accepted{Target: "by hand", Token: "@5", Manual: true, Created: created(time.Hour)})
	one(11, 5, journal.Running{Attempt: 1})
	one(12, 5, ok)
	one(12, 3, journal.Conflict{Wanted: journal.RowDone, Token: "@3"})
	j.SetPosition(17)
	must.Do(t, j.Maintain(t.Context()))
	must.Do(t, j.Close())
	return dir
}

// What was claimed before the time that is looked at is counted under its target, a row that is gone under none; a wait
// counts from the row's creation.
func TestStatisticsOfWhatTheClaimSays(t *testing.T) {
	t.Parallel()
	dir := longWaits(t)
	for name, test := range map[string]struct {
		args []string
		want []string // claimed, starts, done, failed, released, conflicts, wait P50
	}{
		"all that is kept": {nil, []string{
			"? 0 0 0 0 0 1 -", "at once 1 1 1 0 0 0 0s", "by hand 1 1 1 0 0 0 0s", "early 0 1 2 0 0 0 -", "waited 1 1 1 0 0 0 10m0s",
		}},
		"from a time on": {[]string{"--since", "2026-11-20T10:00:12"}, []string{
			"? 0 0 0 0 0 1 -", "by hand 0 0 1 0 0 0 -",
		}},
		"claimed before": {[]string{"--since", "2026-11-20T10:00:10", "--until", "2026-11-20T10:00:11"}, []string{
			"at once 1 1 0 0 0 0 0s", "waited 0 0 1 0 0 0 -",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := jobctl{}.run(t, append([]string{"journal", "stats", "--journal", dir}, test.args...)...)
			counts, times, _ := strings.Cut(got.out, "\n\n")
			waits := strings.Split(times, "\n")
			var rows []string
			for i, row := range strings.Split(counts, "\n") {
				fields := strings.Fields(waits[i])
				rows = append(rows, strings.Join(append(strings.Fields(row), fields[len(fields)-8]), " "))
			}
			if got.code != 0 || strings.Join(rows[1:], "\n") != strings.Join(test.want, "\n") {
				t.Errorf("%+v\nrows %q\nwant %q", got, rows, test.want)
			}
		})
	}
}

// A wait counts from when the row could run: where it was set back, from then; where nobody knows, it
// is none, and no wait since 1970.
func TestStatisticsOfWaitsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	now := begin
	dir := t.TempDir()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, Now: func() time.Time { return now }}))(t)
	one := func(second int, job int64, payload journal.Payload) {
		now = begin.Add(time.Duration(second) * time.Second)
		appendAll(t, j, journal.Draft{Job: job, Payload: payload})
	}
	started := func(second int, job int64, claim journal.Accepted) {
		one(second, job, claim)
		one(second, job, journal.Running{Attempt: 1})
	}
	one(1, 0, journal.Opened{Name: "node-1"})
	started(2, 1, journal.Accepted{Target: "untold", Token: "@1"})
	started(3, 2, journal.Accepted{Target: "in 1970", Token: "@2", Created: 1})
	started(4, 3, journal.Accepted{Target: "not planned", Token: "@3", From: journal.RowDelayed, Plan: &journal.Plan{Schedule: "every 1m"}})
	started(5, 4, journal.Accepted{Target: "again", Token: "@4", Created: begin.Add(-90 * 24 * time.Hour).Unix()})
	one(6, 4, journal.Done{Result: "fail"})
	one(10, 4, journal.Retried{Target: "again", From: journal.RowDone, To: journal.RowWaiting, By: "x"})
	started(20, 4, journal.Accepted{Target: "again", Token: "@5", Created: begin.Add(-90 * 24 * time.Hour).Unix()})
	must.Do(t, j.Close())
	got := jobctl{}.run(t, "journal", "stats", "--journal", dir, "--output", "json")
	for target, want := range map[string]string{"untold": `{"p50":0,`, "in 1970": "null", "not planned": "null", "again": `{"p50":10`} {
		line := ""
		for l := range strings.Lines(got.out) {
			if strings.Contains(l, `"group":"`+target+`"`) {
				line = l
			}
		}
		check.Contains(t, line, `"waited":`+want, "%s", target)
	}
	if text := (jobctl{}).run(t, "journal", "stats", "--journal", dir, "--since", "2026-11-20T10:00:10").out; strings.Contains(text, "d0h") || !strings.Contains(text, "10s") {
		t.Errorf("%s", text)
	}
}
