package api

import (
	"encoding/json"
	"testing"

	jobnet "jobd/net"
)

func TestTheDataOfOutput(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]OutputQuery{
		`{"job": 5}`: {Job: 5, Most: MostOutput},
		`{"job": -5, "attempt": 2, "stdout": 10, "stderr": -20, "most": 1}`: {Job: -5, Attempt: 2, Stdout: 10, Stderr: -20, Most: 1},
	} {
		if got, err := Output.Read(anybody, jobnet.FieldsOf(json.RawMessage(data))); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", data, got, err, want)
		}
	}
	for data, want := range map[string]string{
		`{}`:                         "'job' is missing: the id of a job",
		`{"job": 0}`:                 "no job has the id 0",
		`{"job": "x"}`:               "all ids must be numbers, got string",
		`{"job": 5, "most": 0}`:      "most: 0 is not allowed; allowed is 1 to 65536",
		`{"job": 5, "most": 65537}`:  "most: 65537 is not allowed; allowed is 1 to 65536",
		`{"job": 5, "attempt": -1}`:  "attempt: -1 is not allowed; allowed is 0 to 1000000000",
		`{"job": 5, "stdout": true}`: "'stdout' must be integer",
	} {
		_, err := Output.Read(anybody, jobnet.FieldsOf(json.RawMessage(data)))
		if err == nil || jobnet.CodeOf(err) != jobnet.CodeInvalid {
			t.Errorf("%s: %v", data, err)
		} else if err.Error() != want {
			t.Errorf("%s: %q, want %q", data, err, want)
		}
	}
}

func TestTheDataOfRunning(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"sort": "size"}`: `sort "size" is not allowed; allowed are age, cpu and memory`,
		`{"most": 10001}`:  "most: 10001 is not allowed; allowed is 1 to 10000",
		`{"targets": []}`:  "targets are empty",
	} {
		if _, err := Running.Read(anybody, jobnet.FieldsOf(json.RawMessage(data))); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
	q, err := Running.Read(anybody, nil)
	if err != nil || q.Sort != SortAge || q.Most != MostRunning || q.Targets != nil {
		t.Errorf("without data: %+v, %v", q, err)
	}
}
