package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // Berlin, wherever this runs

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// timedJournal has a recurring job that fails, is tried again, and goes well, and one that was missed.
func timedJournal(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir) // an event a second, from 10:00
	three, zero := 3, 0
	due := begin.Add(-10 * time.Second).Unix()
	daily := &journal.Plan{RunAt: due, PlannedAt: due, Schedule: "daily 13:59", Zone: "Europe/Berlin"}
	second := &journal.Plan{RunAt: due + 14, PlannedAt: due, Attempts: 1, Schedule: "daily 13:59"}
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: "node-1", Targets: map[string]int{"a": 1}}},
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: "a", Token: "@1", From: "delayed", Plan: daily, PlannedAt: due, Created: 5}},
		journal.Draft{Job: 5, Payload: journal.Running{Attempt: 1, Token: "@1", Timeout: 60}},
		journal.Draft{Job: 5, Payload: journal.Done{Result: "fail", Code: &three, Token: "@1", Again: &journal.Again{RunAt: due + 14, PlannedAt: due, Attempts: 1, Why: "retry"}}},
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: "a", Token: "@2", From: "delayed", Plan: second, PlannedAt: due, Created: 5}},
		journal.Draft{Job: 5, Payload: journal.Running{Attempt: 2, Token: "@2"}},
		journal.Draft{Job: 5, Payload: journal.Done{Result: "ok", Code: &zero, Token: "@2", Again: &journal.Again{RunAt: due + 86400, PlannedAt: due + 86400, Why: "schedule"}}},
		journal.Draft{Job: 6, Payload: journal.Planned{Target: "a", From: journal.Plan{RunAt: due}, To: journal.Again{RunAt: due + 3600, PlannedAt: due + 3600, Why: "schedule"}, Reason: "it was missed"}},
		journal.Draft{Job: 9, Payload: journal.Planned{Target: "a", From: *daily, To: journal.Again{RunAt: journal.PausedAt, PlannedAt: due, Why: "schedule"}, By: "10.0.0.5:7"}},
		journal.Draft{Job: 9, Payload: journal.Planned{Target: "a", From: journal.Plan{RunAt: journal.PausedAt, PlannedAt: due, Schedule: "daily 13:59"}, To: journal.Again{RunAt: due + 86400, PlannedAt: due + 86400, Why: "schedule"}, By: "10.0.0.5:7"}},
	)
	must.Do(t, j.Close())
	return dir
}

func TestJournalsTellOfTime(t *testing.T) {
	t.Parallel()
	dir := timedJournal(t)
	for command, want := range map[string][]string{
		"show 5": {
			"planned for 2026-11-20 09:59:50 by its schedule daily 13:59 (Europe/Berlin)", "attempt 1 starts, after it waited 1s, 13s later than planned, for 1m0s at most",
			"ended: exit code 3; it is tried again at 2026-11-20 10:00:04", "attempt 2 starts, after it waited 1s\n", "ended: ok; its next run is at 2026-11-21 09:59:50",
		},
		"show 6":                   {"not run, though it was due at 2026-11-20 09:59:50: planned for 2026-11-20 10:59:50, because it was missed"},
		"show 9":                   {"its schedule was paused by 10.0.0.5:7\n", "its schedule was continued by 10.0.0.5:7; its next run is at 2026-11-21 09:59:50"},
		"state":                    {"6    a       planned   it was missed, again 2026-11-20 10:59:50", "5    a       done    ok, again 2026-11-21 09:59:50"},
		"state --status planned":   {"6    a"},
		"log --kind planned":       {"target=a from.run_at=2026-11-20T09:59:50Z to.run_at=2026-11-20T10:59:50Z to.planned_at=2026-11-20T10:59:50Z to.why=schedule reason=\"it was missed\""},
		"stats --output json":      {`"starts":2`, `"waited":{"p50":2.01`},
		"state --output json -n 1": {`"again":{"run_at":`},
	} {
		got := jobctl{}.run(t, append([]string{"journal", "--journal", dir}, strings.Fields(command)...)...)
		for _, text := range want {
			if got.code != 0 || !strings.Contains(collapsed(got.out), collapsed(text)) {
				t.Errorf("journal %s: exit code %d, no %q in\n%s%s", command, got.code, text, got.out, got.err)
			}
		}
	}
}

// collapsed is a text without the width of its columns.
func collapsed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// A wait for a row that recurs ends with its run, and not between two attempts.
func TestWaitForARowThatRecurs(t *testing.T) {
	t.Parallel()
	row := func(status string, planned, attempts, finished int64) history.Row {
		return history.Row{Job: 5, Status: status, Finished: finished, Plan: &journal.Plan{Schedule: "every 5m", PlannedAt: planned, Attempts: attempts}}
	}
	for name, test := range map[string]struct {
		rows []history.Row
		over []bool
	}{
		"the next run":                      {[]history.Row{row("delayed", 100, 0, 50), row("running", 100, 1, 50), row("delayed", 400, 0, 110)}, []bool{false, false, true}},
		"the run under way":                 {[]history.Row{row("running", 100, 1, 50), row("delayed", 400, 0, 110)}, []bool{false, true}},
		"one that ended in the same second": {[]history.Row{row("running", 100, 1, 50), row("delayed", 400, 0, 50)}, []bool{false, true}},
		"between two attempts":              {[]history.Row{row("running", 100, 1, 50), row("delayed", 100, 1, 110), row("running", 100, 2, 110), row("delayed", 400, 0, 120)}, []bool{false, false, false, true}},
		"its first run":                     {[]history.Row{row("waiting", 0, 0, 0), row("running", 90, 1, 0), row("delayed", 390, 0, 95)}, []bool{false, false, true}},
		"planned anew":                      {[]history.Row{row("delayed", 100, 0, 50), row("delayed", 400, 0, 50), row("delayed", 700, 0, 410)}, []bool{false, false, true}},
		"a fast one is missed in between":   {[]history.Row{row("delayed", 100, 0, 50), row("running", 400, 1, 110)}, []bool{false, true}},
	} {
		w := jobWait{first: map[jobnet.Whole]history.Row{}}
		for i, row := range test.rows {
			check.Equal(t, w.ran(row), test.over[i], "%s, look %d", name, i+1)
		}
	}
	if w := (jobWait{first: map[jobnet.Whole]history.Row{}}); w.ran(history.Row{Job: 5, Status: "delayed"}) || w.ran(history.Row{Job: 5, Status: "delayed", Plan: &journal.Plan{}}) {
		t.Error("a row without a schedule is over when it is done")
	}
}

func TestPagesTellOfTime(t *testing.T) {
	t.Parallel()
	status := json.RawMessage(`{"targets": {"mail": {"paused": false, "concurrency": 4, "length": 0, "running": 1, "nextDue": 1795176300}}, "name": "node-1", "pid": 7, "startedAt": 1795176000000, "database": {"reachable": true}}`)
	d := startDaemon(t, "", map[string]any{
		"status":  status,
		"waiting": json.RawMessage(`{"targets": {"mail": {"count": 3, "oldest": 1795175000, "due": 2, "nextDue": 1795176300}}}`),
		"running": json.RawMessage(`{"total": 1, "jobs": [{"job": 5, "target": "mail", "attempt": 2, "maxAttempts": 5, "pid": 9, "since": 1795175940000, "elapsed": 60000, "deadline": 1795176540000, "recurs": true}]}`),
		"explain": json.RawMessage(`{"name": "node-1", "jobs": [{"job": 5, "row": {"target": "mail", "status": "delayed", "stdout": {"size": 0}, "stderr": {"size": 0},
			"plan": {"run_at": 1795176300, "planned_at": 1795176000, "attempts": 1, "max_attempts": 5, "timeout": 600, "schedule": "hourly :00", "in": "Europe/Berlin", "next": 1795179600}}}]}`),
		"journal-events": jobnet.Refusal("no"),
	})
	for command, want := range map[string][]string{
		"queue":  {"TARGET | WAITING | OLDEST | DUE | NEXT DUE | RUNNING | ENDED | EMPTY IN", "mail | 3 | 16m40s | 2 | in 5m0s | 1/4"},
		"status": {"TARGET | SLOTS | PREFETCHED | WAITING | OLDEST | NEXT DUE | PAUSED", "| in 5m0s |"},
		"ps":     {"TRY | SINCE | ELAPSED | CPU | MEMORY | LEFT", "| 2/5 |", "| 9m0s"},
		"show 5": {"due: 12:05:00", "planned: 12:00:00", "attempts: 1 of 5", "timeout: 10m0s", "schedule: hourly :00", "time zone: Europe/Berlin", "next run: 13:00:00"},
		"why 5":  {"job 5 is delayed until 12:05 UTC (in 5m), attempt 2 of 5 after"},
	} {
		got := jobctl{terminal: true, columns: 80}.run(t, append([]string{"--port", d.port}, strings.Fields(command)...)...)
		for _, text := range want {
			check.Contains(t, collapsed(got.out), text, "%s: no … in %s%s", command, got.out, got.err)
		}
		for line := range strings.Lines(got.out) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && strings.Contains(line, " | ") {
				t.Errorf("%s: %d columns: %s", command, n, line)
			}
		}
	}
}

// Who wants a delayed row to be tried at once is told how.
func TestRetryOfADelayedRow(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status":       json.RawMessage(workerAnswer),
		"journal-rows": history.RowsAnswer{Rows: []history.Row{{Job: 5, Status: "delayed"}}},
	})
	got := jobctl{}.run(t, "--port", d.port, "retry", "5")
	if want := "jobctl: job 5: status = delayed: it comes back by itself when it is due; run-now has it run at once\n"; got.code != 1 || got.err != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

// What is due, and how far off it is, goes by the clock of the table's server, which the worker tells:
// here it is ten minutes behind that of jobctl's host.
func TestDueGoesByTheServersClock(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status":  json.RawMessage(`{"targets": {"mail": {"paused": false, "concurrency": 4, "length": 0, "running": 1}}, "name": "node-1", "pid": 7, "startedAt": 1795176000000, "database": {"reachable": true}}`),
		"waiting": json.RawMessage(`{"targets": {"mail": {"count": 3, "oldest": 1795175000, "nextDue": 1795175700, "now": 1795175400}}}`),
		"explain": json.RawMessage(`{"name": "node-1", "jobs": [{"job": 5, "row": {"target": "mail", "status": "delayed", "stdout": {"size": 0}, "stderr": {"size": 0},
			"plan": {"run_at": 1795175700, "now": 1795175400}}}]}`),
		"recurring": json.RawMessage(`{"rows": [{"job": 5, "target": "mail", "status": "delayed", "schedule": "hourly :00", "zone": "UTC", "run_at": 1795175700},
			{"job": 6, "target": "mail", "status": "delayed", "schedule": "hourly :00", "zone": "UTC", "run_at": 1795175400, "due": true}]}`),
	})
	for command, want := range map[string]string{
		"queue":    "mail | 3 | 16m40s | 0 | in 5m0s |",
		"status":   "| in 5m0s |",
		"why 5":    "job 5 is delayed until 11:55 (in 5m)",
		"schedule": "6 | mail | hourly :00 | | due since\n| | | | 11:50:00",
	} {
		got := jobctl{terminal: true, columns: 120}.run(t, append([]string{"--port", d.port}, strings.Fields(command)...)...)
		if !strings.Contains(collapsed(got.out), want) || strings.Contains(got.out, "due since 11:55") {
			t.Errorf("%s: no %q in\n%s%s", command, want, got.out, got.err)
		}
	}
}

// The page of a job has times as all pages have them: to the second on a terminal, with the date
// where that is not today's; whole in a pipe.
func TestTimesOfShow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)
	event := must.Get(json.Marshal(history.Event{Event: journal.Event{Seq: 1, Time: at, Job: 6, Payload: journal.Ignored{Reason: "why not"}}}))(t)
	worker := startDaemon(t, "", map[string]any{
		"status":         json.RawMessage(workerAnswer),
		"explain":        json.RawMessage(`{"name":"node-1","jobs":[{"job":6,"row":{"target":"mail","status":"ignored","created":1795168800,"stdout":{"size":0},"stderr":{"size":0}}}]}`),
		"journal-anchor": history.AnchorAnswer{Seq: 1, Hash: strings.Repeat("0f", 32)},
		"journal-events": api.Opened{Name: "node-1", Cursor: "c"}, "journal-next": history.Page{Items: []json.RawMessage{event}}, "journal-close": "ok",
	})
	for _, test := range []struct {
		terminal       bool
		created, event string
	}{
		{true, "created:     10:00:00\n", "\n10:00:00  "},
		{false, "created:     2026-11-20 10:00:00\n", "\n2026-11-20 10:00:00.123456  "},
	} {
		got := jobctl{terminal: test.terminal}.run(t, "--port", worker.port, "show", "6")
		if !strings.Contains(got.out, test.created) || !strings.Contains(got.out, test.event) {
			t.Errorf("terminal %v: %+v", test.terminal, got)
		}
	}
}

// Of a row that recurs only what happened last is shown, with how much was left out and how late the
// last run was; who made it due is named.
func TestShowOfARowThatRecurs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	plan := journal.Plan{RunAt: at.Unix(), PlannedAt: at.Unix(), Schedule: "daily 10:00"}
	payloads := []journal.Payload{journal.Planned{Target: "mail", From: journal.Plan{Schedule: "daily 10:00"}, To: journal.Again{RunAt: at.Unix()}, Reason: "unsaid"}}
	for range 15 {
		payloads = append(payloads,
			journal.Planned{Target: "mail", From: plan, To: journal.Again{RunAt: at.Unix() - 60}, By: "10.0.0.5:4711", Reason: "unsaid"},
			journal.Accepted{Target: "mail", Token: "@aaaabbbbb", From: journal.RowDelayed, PlannedAt: at.Unix(), Plan: &plan},
			journal.Running{Attempt: 1})
	}
	var events []json.RawMessage
	for i, payload := range payloads {
		event := must.Get(json.Marshal(history.Event{Event: journal.Event{Seq: uint64(i + 1), Time: at.Add(2 * time.Second), Job: 6, Payload: payload}}))(t)
		events = append(events, event)
	}
	worker := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer),
		"explain": json.RawMessage(`{"name":"node-1","jobs":[{"job":6,"row":{"target":"mail","status":"delayed","created":1795168800,"stdout":{"size":0},"stderr":{"size":0},
			"plan":{"run_at":1795255200,"planned_at":1795255200,"schedule":"daily 10:00","in":"UTC","next":1795255200}}}]}`),
		"journal-anchor": history.AnchorAnswer{Seq: 1, Hash: strings.Repeat("0f", 32)},
		"journal-events": api.Opened{Name: "node-1", Cursor: "c"}, "journal-next": history.Page{Items: events}, "journal-close": "ok",
	})
	got := jobctl{terminal: true}.run(t, "--port", worker.port, "show", "6")
	for _, want := range []string{
		"\nearlier runs: jobctl show 6 --all\n", "made due now by 10.0.0.5:4711; it was due at 10:00:00\n", "\nlater than planned: 2.00s\n",
	} {
		check.Contains(t, got.out, want, "no … in …%s", got.err)
	}
	for _, other := range []string{"until it was claimed", "unsaid", "next run:"} {
		if strings.Contains(got.out, other) {
			t.Errorf("%q in\n%s", other, got.out)
		}
	}
	check.Equal(t, strings.Count(got.out, "attempt 1 starts"), 10, "runs in %s", got.out)
	check.Contains(t, strings.Join(worker.asked(), "\n"), `"last":80`, "all events are asked for")
	for args, want := range map[string]int{"show 6 --all": 15, "show -n 3 6": 3, "show -n 15 6": 15, "show -n 2 6 --output json": 2} {
		got := jobctl{terminal: true}.run(t, append([]string{"--port", worker.port}, strings.Fields(args)...)...)
		n := strings.Count(got.out, "attempt 1 starts") + strings.Count(got.out, `"type":"running"`) + strings.Count(got.out, `"kind":"running"`)
		if n != want || strings.Contains(got.out, "earlier") != (want < 15) {
			t.Errorf("%s: %d runs in\n%s%s", args, n, got.out, got.err)
		}
	}
	if got := (jobctl{}).run(t, "--port", worker.port, "show", "6", "-n", "0"); got.code != 2 || !strings.Contains(got.err, "allowed: a whole number from 1 to 1000") {
		t.Errorf("%+v", got)
	}
	got = jobctl{terminal: true}.run(t, "--port", worker.port, "journal", "show", "6")
	check.Contains(t, got.out, "planned for 10:00:00, by its schedule daily 10:00\n", "no … in …%s", got.err)
}

// A journal that could not be read is not one that knows nothing of the job.
func TestShowOfAJournalThatCannotBeRead(t *testing.T) {
	t.Parallel()
	answers := map[string]any{
		"status":       json.RawMessage(workerAnswer),
		"explain":      json.RawMessage(`{"name":"node-1","jobs":[{"job":6,"row":{"target":"mail","status":"waiting","stdout":{"size":0},"stderr":{"size":0}}}]}`),
		"journal-next": history.Page{}, "journal-close": "ok",
	}
	unread := startDaemon(t, "", answers)
	got := jobctl{}.run(t, "--port", unread.port, "show", "6")
	if !strings.Contains(got.out, "history: not known") || strings.Contains(got.out, "none") {
		t.Errorf("%+v", got)
	}
	answers["journal-anchor"] = history.AnchorAnswer{Seq: 1, Hash: strings.Repeat("0f", 32)}
	answers["journal-events"] = api.Opened{Name: "node-1", Cursor: "c"}
	read := startDaemon(t, "", answers)
	if got := (jobctl{}).run(t, "--port", read.port, "show", "6"); !strings.Contains(got.out, "history: none") {
		t.Errorf("%+v", got)
	}
}
