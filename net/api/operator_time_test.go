package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

func TestRecurringIsRead(t *testing.T) {
	t.Parallel()
	got, err := api.Recurring.Read(anybody, jobnet.FieldsOf([]byte(`{"targets":["a"],"after":"9007199254740993","most":7,"x":1}`)))
	after := jobnet.Whole(9007199254740993)
	if diff := cmp.Diff(api.RecurringQuery{Targets: []string{"a"}, After: &after, Most: 7}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = api.Recurring.Read(anybody, jobnet.FieldsOf([]byte(`{}`)))
	if diff := cmp.Diff(api.RecurringQuery{Most: api.MostRecurring}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for data, want := range map[string]string{
		`{"targets":"a"}`:  "targets must be array",
		`{"after":"x"}`:    "'after' must be integer",
		`{"most":1001}`:    "most: 1001 is not allowed; allowed: 1 to 1000",
		`{"most":0}`:       "most: 0 is not allowed",
		`{"most":"three"}`: "most",
	} {
		if _, err := api.Recurring.Read(anybody, jobnet.FieldsOf([]byte(data))); err == nil || !strings.Contains(err.Error(), want) || jobnet.CodeOf(err) == jobnet.CodeRefused {
			t.Errorf("%s: %v, want %q and its code", data, err, want)
		}
	}
}

func TestRunNowIsRead(t *testing.T) {
	t.Parallel()
	got, err := api.RunNow.Read(anybody, jobnet.FieldsOf([]byte(`{"ids":[5,"9007199254740993",-1]}`)))
	if diff := cmp.Diff(api.PlanRows{IDs: []jobnet.Whole{5, 9007199254740993, -1}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for data, want := range map[string]string{
		`{}`:          "ids",
		`{"ids":[]}`:  "ids are empty",
		`{"ids":[0]}`: "no job has the id 0",
		`{"ids":[` + strings.Repeat("1,", 1000) + `1]}`: "1000",
	} {
		if _, err := api.RunNow.Read(anybody, jobnet.FieldsOf([]byte(data))); err == nil || !strings.Contains(err.Error(), want) || jobnet.CodeOf(err) == jobnet.CodeRefused {
			t.Errorf("%.60s: %v, want %q and its code", data, err, want)
		}
	}
}

// Rows are made due by one worker only: a master is told by which.
func TestRunNowIsForOneWorker(t *testing.T) {
	t.Parallel()
	for name, oneWorker := range map[string]bool{api.RunNow.Name: true, api.Recurring.Name: false} {
		if how := api.Kinds[name]; how.OneWorker != oneWorker || how.Relayed == oneWorker {
			t.Errorf("a master hands on %s: %+v", name, how)
		}
	}
}

func TestRetryIsRead(t *testing.T) {
	t.Parallel()
	got, err := api.Retry.Read(anybody, jobnet.FieldsOf([]byte(`{"ids":[5,"9007199254740993",-1],"finished":{"5":7},"to":{"-1":"manual"},"x":1}`)))
	want := api.RetryRows{
		IDs: []jobnet.Whole{5, 9007199254740993, -1}, Finished: map[jobnet.Whole]int64{5: 7}, To: map[jobnet.Whole]string{-1: "manual"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for data, want := range map[string]string{
		`{}`:                                  "ids",
		`{"ids":["x"]}`:                       "all ids must be numbers, got string",
		`{"ids":[0]}`:                         "no job has the id 0",
		`{"ids":[1],"finished":[1]}`:          "finished must be an object whose names are ids",
		`{"ids":[1],"finished":{"1":"soon"}}`: "finished: job 1: a time must be a whole number of seconds",
		`{"ids":[1],"to":{"1":"done"}}`:       "to: job 1: allowed: waiting and manual",
		`{"ids":[1],"to":{"x":"waiting"}}`:    `to: "x" is not the id of a job`,
		`{"ids":[` + strings.Repeat("1,", 10_000) + `1]}`: "10000",
	} {
		if _, err := api.Retry.Read(anybody, jobnet.FieldsOf([]byte(data))); err == nil || !strings.Contains(err.Error(), want) || jobnet.CodeOf(err) == jobnet.CodeRefused {
			t.Errorf("%.60s: %v, want %q and its code", data, err, want)
		}
	}
}

// anybody may do everything.
var anybody = principal.Known("", "", "127.0.0.1:1")
