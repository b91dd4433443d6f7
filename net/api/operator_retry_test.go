package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobnet "jobd/net"
	"jobd/net/api"
)

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
		`{"ids":[1],"to":{"1":"done"}}`:       "to: job 1: allowed are waiting and manual",
		`{"ids":[1],"to":{"x":"waiting"}}`:    `to: "x" is no id of a job`,
		`{"ids":[` + strings.Repeat("1,", 10_000) + `1]}`: "10000",
	} {
		if _, err := api.Retry.Read(anybody, jobnet.FieldsOf([]byte(data))); err == nil || !strings.Contains(err.Error(), want) || jobnet.CodeOf(err) == jobnet.CodeRefused {
			t.Errorf("%.60s: %v, want %q and its code", data, err, want)
		}
	}
}
