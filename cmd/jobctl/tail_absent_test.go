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
		if got.code != 1 || !strings.Contains(got.err, "job 7: ") || !strings.Contains(got.err, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// What nobody's journal tells of any more stands in the row, whose end is shown.
func TestTailOfAJobThatOnlyItsRowKnows(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "output": json.RawMessage(`{"job": 7, "state": "unknown"}`),
		"journal-rows": json.RawMessage(`{"name": "node-1", "rows": [{"job": 7, "target": "mail", "status": "done"}]}`),
		"explain": json.RawMessage(`{"name": "node-1", "jobs": [{"job": 7, "row": {"target": "mail", "status": "done",
			"stdout": {"size": 1009, "tail": "one\ntwo\n"}, "stderr": {"size": 4, "tail": "bad\n"}}}]}`),
	})
	for args, want := range map[string]output{
		"tail 7": {0, "one\ntwo\n", "jobctl: job 7: no journal that was asked tells of its end; this is what its row has\n" +
			"jobctl: 1,001 bytes of stdout before these are in the row only\nbad\n"},
		"tail -f -n 1 7": {0, "two\n", "jobctl: job 7: no journal that was asked tells of its end; this is what its row has\n" +
			"jobctl: 1,001 bytes of stdout before these are in the row only\nbad\n"},
		"tail --output=json 7": {0, `{"job":7,"state":"ended","running":false,"stdout":{"at":1001,"bytes":"b25lCnR3bwo=","size":1009,"skipped":1001},` +
			`"stderr":{"at":0,"bytes":"YmFkCg==","size":4},"row":true}` + "\n", ""},
	} {
		jobctl{}.expect(t, d, want, strings.Fields(args)...)
	}
}
