package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/net/contract"
)

// The page of a job has times as all pages have them: to the second on a terminal, with the date
// where that is not today's; whole in a pipe.
func TestTimesOfShow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)
	event, err := json.Marshal(history.Event{Event: journal.Event{Seq: 1, Time: at, Job: 6, Payload: journal.Ignored{Reason: "why not"}}})
	if err != nil {
		t.Fatal(err)
	}
	worker := startDaemon(t, "", map[string]any{
		"status":         json.RawMessage(workerAnswer),
		"explain":        json.RawMessage(`{"name":"node-1","jobs":[{"job":6,"row":{"target":"mail","status":"ignored","created":1795168800,"stdout":{"size":0},"stderr":{"size":0}}}]}`),
		"journal-anchor": history.AnchorAnswer{Seq: 1, Hash: strings.Repeat("0f", 32)},
		"journal-events": contract.Opened{Name: "node-1", Cursor: "c"}, "journal-next": history.Page{Items: []json.RawMessage{event}}, "journal-close": "ok",
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
