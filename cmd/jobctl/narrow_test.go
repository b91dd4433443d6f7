package main

import (
	"encoding/json"
	"strings"
	"testing"

	"jobd/cmd/internal/screen"
)

// In a terminal of 80 columns no table wraps, however long what is in it; in a wider one, there is
// more of it.
func TestTablesInANarrowTerminal(t *testing.T) {
	t.Parallel()
	const long = "a-name-that-is-so-long-that-nobody-would-give-it-to-a-worker-or-a-target-of-its-own"
	const reason = "the row is locked by somebody who has begun a transaction and has gone to lunch since"
	worker := `{"targets": {"` + long + `": {"concurrency": 10, "length": 3}}, "memoryUsage": {"rss": 1048576},
		"journal": {"events": 1000000, "mirrored": 999999, "bytes": 123456789, "segments": 12},
		"aside": [{"job": 4711, "target": "` + long + `", "reason": "` + reason + `", "since": "2025-11-20T10:00:05Z"}]}`
	master := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(`{"workers": [{"remoteAddr": "2001:db8::1:2:3:4", "remotePort": 40001, "name": "` + long + `", "targets": ["a"], "workerStatus": ` + worker + `},
			{"remoteAddr": "10.0.0.1", "remotePort": 40001, "name": "node-2", "targets": ["` + long + `"], "workerStatusError": "` + reason + `"}], "memoryUsage": {}}`),
	})
	old := startDaemon(t, "", map[string]any{
		"status":       json.RawMessage(worker),
		"journal-diff": json.RawMessage(`{"name": "node-1", "cursor": "c"}`),
		"journal-next": json.RawMessage(`{"items": [{"job": 1, "cause": "changed", "want": {"job": 1, "target": "` + long + `", "status": "done"}, "found": {"job": 1, "status": "waiting"}, "reason": "` + reason + `"}], "more": false}`),
	})
	dir := oneDay(t)
	for name, args := range map[string][]string{
		"list-workers":  {"--master", "--port", master.port, "list-workers"},
		"status":        {"--master", "--port", master.port, "status"},
		"memory-usage":  {"--master", "--port", master.port, "memory-usage"},
		"list-targets":  {"--port", old.port, "list-targets"},
		"journal diff":  {"--port", old.port, "journal", "diff"},
		"journal state": {"journal", "state", "--journal", dir},
		"journal stats": {"journal", "stats", "--journal", dir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			narrow, wide := startMultiplexer(t).showsIn(t, 80, args...), startMultiplexer(t).showsIn(t, 160, args...)
			for line := range strings.Lines(narrow) { // joined where it wraps
				if n := screen.Width(strings.TrimRight(line, "\n")); n > 80 && strings.ContainsAny(line, "|+") {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			isCut := strings.Contains(narrow, "…")
			if !strings.Contains(narrow, "exit code") || isCut != strings.Contains(wide, "a-name") {
				t.Errorf("shows\n%s", narrow)
			}
			if isCut && strings.Count(wide, "e") <= strings.Count(narrow, "e") {
				t.Errorf("a wide terminal shows no more:\n%s", wide)
			}
		})
	}
}
