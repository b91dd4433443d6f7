package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// Of a job that another worker runs nothing is in its row yet, and it is not said that there is.
func TestTailOfAJobOfAWorkerThatWasNotAsked(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]string{
		"running": "the worker that has claimed it was not asked, or does not answer",
		"done":    "what there is of it is in the row",
	} {
		d := startDaemon(t, "", map[string]any{
			"status": json.RawMessage(workerAnswer), "output": json.RawMessage(`{"job": 7, "state": "unknown"}`),
			"journal-rows": json.RawMessage(`{"name": "node-1", "rows": [{"job": 7, "target": "mail", "status": "` + status + `"}]}`),
		})
		got := jobctl{}.run(t, "--port", d.port, "tail", "7")
		if got.code != 1 || !strings.Contains(got.err, "job 7: its row is '"+status+"'") || !strings.Contains(got.err, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}
