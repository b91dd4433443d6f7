package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// The clock of the worker's host is ahead, or was set back since: how long a job has run is what the
// worker measured, where it tells that.
func TestPsTellsHowLongJobsHaveRunWhateverClocksSay(t *testing.T) {
	t.Parallel()
	const since = "1795194000000" // five hours ahead of the clock here
	d := startDaemon(t, "", map[string]any{"status": json.RawMessage(workerAnswer), "running": json.RawMessage(
		`{"jobs": [{"job": 7, "target": "mail", "attempt": 1, "since": ` + since + `, "elapsed": 125000},
		{"job": 8, "target": "mail", "attempt": 1, "since": ` + since + `}], "total": 2}`)})
	got := jobctl{}.run(t, "--port", d.port, "ps")
	if lines := strings.Split(got.out, "\n"); got.code != 0 || !strings.Contains(lines[1], "  2m5s ") || !strings.Contains(lines[2], "  0s ") {
		t.Errorf("%+v", got)
	}
}
