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
		"retry --failed --code 256": `"256" is not allowed; allowed is 0 to 255`,
		"retry x":                   `job "x" is not allowed; allowed is ID or TARGET:ID`,
		"wait :5":                   `job ":5" is not allowed`,
		"failed -n -3":              `-n: "-3" is not allowed`,
		"failed 5":                  "takes no arguments",
		"journal log --result bad":  `--result: "bad" is not allowed; allowed are: ok, fail`,
	} {
		if got := (jobctl{}).run(t, strings.Fields(args)...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v, want exit code 2 and %q", args, got, want)
		}
	}
}
