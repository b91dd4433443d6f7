package board

import (
	"testing"

	"jobd/journal"
)

// A row waits since it could have been claimed, whatever it did before.
func TestReadySinceTheLastReason(t *testing.T) {
	t.Parallel()
	due := &journal.Plan{RunAt: 300}
	for name, test := range map[string]struct {
		job  Job
		want int64
	}{
		"made":                           {Job{claim: journal.Accepted{Created: 100}}, 100},
		"set back":                       {Job{claim: journal.Accepted{Created: 100}, setBack: 200}, 200},
		"delayed":                        {Job{claim: journal.Accepted{Created: 100, Plan: due, From: journal.RowDelayed}, setBack: 200}, 300},
		"a time that was not waited for": {Job{claim: journal.Accepted{Created: 100, Plan: due}}, 100},
		"made behind its time":           {Job{claim: journal.Accepted{Created: 400, Plan: due, From: journal.RowDelayed}}, 400},
		"by hand":                        {Job{claim: journal.Accepted{Created: 100, Manual: true}}, 0},
		"started before":                 {Job{claim: journal.Accepted{Created: 100}, recovered: true}, 0},
		"not said":                       {Job{setBack: 200}, 0},
	} {
		if got := test.job.Ready(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
