package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

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
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s%s", want, got.out, got.err)
		}
	}
	for _, other := range []string{"until it was claimed", "unsaid", "next run:"} {
		if strings.Contains(got.out, other) {
			t.Errorf("%q in\n%s", other, got.out)
		}
	}
	if n := strings.Count(got.out, "attempt 1 starts"); n != 10 {
		t.Errorf("%d runs in\n%s", n, got.out)
	}
	if asked := strings.Join(worker.asked(), "\n"); !strings.Contains(asked, `"last":80`) {
		t.Errorf("all events are asked for:\n%s", asked)
	}
	for args, want := range map[string]int{"show 6 --all": 15, "show -n 3 6": 3, "show -n 15 6": 15, "show -n 2 6 --output json": 2} {
		got := jobctl{terminal: true}.run(t, append([]string{"--port", worker.port}, strings.Fields(args)...)...)
		n := strings.Count(got.out, "attempt 1 starts") + strings.Count(got.out, `"type":"running"`) + strings.Count(got.out, `"kind":"running"`)
		if n != want || strings.Contains(got.out, "earlier") != (want < 15) {
			t.Errorf("%s: %d runs in\n%s%s", args, n, got.out, got.err)
		}
	}
	if got := (jobctl{}).run(t, "--port", worker.port, "show", "6", "-n", "0"); got.code != 2 || !strings.Contains(got.err, "allowed is 1 to 1000") {
		t.Errorf("%+v", got)
	}
	got = jobctl{terminal: true}.run(t, "--port", worker.port, "journal", "show", "6")
	if want := "planned for 10:00:00, by its schedule daily 10:00\n"; !strings.Contains(got.out, want) {
		t.Errorf("no %q in\n%s%s", want, got.out, got.err)
	}
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
