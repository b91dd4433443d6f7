package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// That nothing can be started is said in one line, before what each target says.
func TestStatusTellsOfTheLauncher(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, "", map[string]any{"status": json.RawMessage(`{"targets": {"mail": {"why": "the launcher can't be executed: gone"}},
		"launcher": {"broken": "the launcher can't be executed: /srv/job\u001b[31m: gone", "since": "2026-11-20T10:00:05Z"}}`)})
	got := jobctl{terminal: true}.run(t, "--port", daemon.port, "status")
	want := "\nnothing is started since 10:00:05: the launcher can't be executed:\n    /srv/job\\x1b[31m: gone\n"
	if got.code != 0 || !strings.Contains(got.out, want) {
		t.Errorf("exit code %d, stdout:\n%s\nwant in it:\n%s", got.code, got.out, want)
	}
}
