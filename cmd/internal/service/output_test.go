package service

import (
	"errors"
	"reflect"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/contract"
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
	end := &contract.OutputEnd{Result: "fail", Code: &code, Reason: "why", Note: "note", Ended: at.UnixMilli()}
	for name, test := range map[string]struct {
		output func(jobexec.Glance) (jobexec.JobOutput, bool, error)
		ended  func() (*journal.Event, int, error)
		query  contract.OutputQuery
		want   contract.JobOutput
	}{
		"claimed": {here(jobexec.JobOutput{Attempt: 1}), never, contract.OutputQuery{}, contract.JobOutput{Attempt: 1, State: "claimed", Running: true}},
		"running": {
			here(jobexec.JobOutput{Attempt: 1, Started: true, Adopted: true, Written: jobexec.Written{{At: 9, Bytes: []byte("x"), Size: 10}, {At: 4, Size: 4}}}),
			never,
			contract.OutputQuery{Stdout: 5, Stderr: -3},
			contract.JobOutput{
				Attempt: 1, State: "running", Running: true, Adopted: true,
				Stdout: contract.OutputPart{At: 9, Bytes: []byte("x"), Size: 10, Skipped: 4}, Stderr: contract.OutputPart{At: 4, Size: 4},
			},
		},
		"ended": {
			nowhere, once,
			contract.OutputQuery{Stdout: 3, Most: 10},
			contract.JobOutput{
				Attempt: 2, State: "ended", Done: end,
				Stdout: contract.OutputPart{At: 3, Bytes: []byte("34"), Size: 9}, Stderr: contract.OutputPart{Bytes: []byte("e"), Size: 1},
			},
		},
		"at its end": {
			nowhere, once,
			contract.OutputQuery{Stdout: 7, Stderr: 1, Attempt: 2},
			contract.JobOutput{
				Attempt: 2, State: "ended", Done: end,
				Stdout: contract.OutputPart{At: 9, Size: 9, Skipped: 2}, Stderr: contract.OutputPart{At: 1, Size: 1},
			},
		},
		"unknown":         {nowhere, never, contract.OutputQuery{}, contract.JobOutput{State: "unknown"}},
		"another attempt": {nowhere, once, contract.OutputQuery{Attempt: 1}, contract.JobOutput{Attempt: 1, State: "unknown"}},
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
	_, err := newService(&stub{output: silent}).Output(t.Context(), asked("x"), contract.OutputQuery{Job: 5})
	if err == nil || err.Error() != "job 5 runs, but its output can't be told: it stands still" {
		t.Errorf("of a runner that stands still: %v", err)
	}
}
