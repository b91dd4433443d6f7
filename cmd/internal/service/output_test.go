package service

import (
	"errors"
	"reflect"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/api"
)

// Of a job under way the worker tells, of one that has ended the journal; offsets at which nothing
// was kept are passed over, and counted.
func TestOutputComesFromWhoeverHasIt(t *testing.T) {
	t.Parallel()
	at, code := time.UnixMilli(1_800_000_000_000), 3
	here := func(out jobexec.JobOutput) func(jobexec.Glance) (jobexec.JobOutput, bool, error) {
		return func(jobexec.Glance) (jobexec.JobOutput, bool, error) { return out, true, nil }
	}
	nowhere := func(jobexec.Glance) (out jobexec.JobOutput, found bool, err error) { return }
	never := func() (*journal.Event, int, error) { return nil, 0, nil }
	once := func() (*journal.Event, int, error) {
		return &journal.Event{Time: at, Payload: journal.Done{
			Result: "fail", Code: &code, Reason: "why", Note: "note",
			Stdout: journal.Output{Kept: []byte("01234"), Size: 9}, Stderr: journal.Output{Kept: []byte("e"), Size: 1},
		}}, 2, nil
	}
	end := &api.OutputEnd{Result: "fail", Code: &code, Reason: "why", Note: "note", Ended: at.UnixMilli()}
	for name, test := range map[string]struct {
		output func(jobexec.Glance) (jobexec.JobOutput, bool, error)
		ended  func() (*journal.Event, int, error)
		query  api.OutputQuery
		want   api.JobOutput
	}{
		"claimed": {here(jobexec.JobOutput{Attempt: 1}), never, api.OutputQuery{}, api.JobOutput{Attempt: 1, State: "claimed", Running: true}},
		"running": {
			here(jobexec.JobOutput{Attempt: 1, Started: true, Adopted: true, Written: jobexec.Written{{At: 9, Bytes: []byte("x"), Size: 10}, {At: 4, Size: 4}}}),
			never,
			api.OutputQuery{Stdout: 5, Stderr: -3},
			api.JobOutput{
				Attempt: 1, State: "running", Running: true, Adopted: true,
				Stdout: api.OutputPart{At: 9, Bytes: []byte("x"), Size: 10, Skipped: 4}, Stderr: api.OutputPart{At: 4, Size: 4},
			},
		},
		"ended": {
			nowhere, once,
			api.OutputQuery{Stdout: 3, Most: 10},
			api.JobOutput{
				Attempt: 2, State: "ended", Done: end,
				Stdout: api.OutputPart{At: 3, Bytes: []byte("34"), Size: 9}, Stderr: api.OutputPart{Bytes: []byte("e"), Size: 1},
			},
		},
		"at its end": {
			nowhere, once,
			api.OutputQuery{Stdout: 7, Stderr: 1, Attempt: 2},
			api.JobOutput{
				Attempt: 2, State: "ended", Done: end,
				Stdout: api.OutputPart{At: 9, Size: 9, Skipped: 2}, Stderr: api.OutputPart{At: 1, Size: 1},
			},
		},
		"unknown":         {nowhere, never, api.OutputQuery{}, api.JobOutput{State: "unknown"}},
		"another attempt": {nowhere, once, api.OutputQuery{Attempt: 1}, api.JobOutput{Attempt: 1, State: "unknown"}},
	} {
		test.query.Job, test.want.Job = 5, 5
		got, err := newService(&stub{output: test.output, ended: test.ended}).Output(t.Context(), asked("x"), test.query)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
	silent := func(jobexec.Glance) (jobexec.JobOutput, bool, error) {
		return jobexec.JobOutput{}, true, errors.New("it stands still")
	}
	_, err := newService(&stub{output: silent}).Output(t.Context(), asked("x"), api.OutputQuery{Job: 5})
	if err == nil || err.Error() != "job 5 runs, but its output can't be told: it stands still" {
		t.Errorf("of a runner that stands still: %v", err)
	}
}
