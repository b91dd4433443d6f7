package main

import (
	"encoding/json"
	"strings"
	"testing"

	"jobd/cmd/internal/operator"
	"jobd/net/api"
)

// One of something is told as one, and what there is none of is not told.
func TestOneOfSomething(t *testing.T) {
	t.Parallel()
	if one, some := ofJobs(1, 1), ofJobs(1, 3); one != "1 job" || some != "1 of 3 jobs" {
		t.Errorf("%q, %q", one, some)
	}
	for want, w := range map[string]api.WaitingTarget{
		"0 rows wait": {}, "1 row waits": {Count: 1}, "2,935 rows wait": {Count: 2935}, "1+ rows wait": {Count: 1, More: true},
	} {
		if got := operator.RowsWait(w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	with := strings.TrimSuffix(workerAnswer, "}") + `, "journal": {"events": 7, "mirrored": 7, "bytes": 1024, "segments": 1}}`
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(with)})
	if got := (jobctl{}).run(t, "--port", worker.port, "status"); !strings.Contains(got.out, "\njournal: 7 events; 1.0 KiB in 1 segment\n") {
		t.Errorf("%s", got.out)
	}
}
