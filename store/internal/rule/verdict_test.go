package rule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	rows := []journal.Row{
		{Job: 1, Status: journal.RowWaiting},
		{Job: 2, Status: journal.RowManual},
		{Job: 3, Status: journal.RowWaiting},
		{Job: 4, Status: journal.RowRunning},
	}
	accept := func(job int64, token string) journal.Event {
		return journal.Event{Job: job, Payload: journal.Accepted{Token: token}}
	}
	cases := []struct {
		name   string
		events []journal.Event
		want   []Verdict
		err    string
	}{
		{name: "nothing decided"},
		{
			name: "one group for each status and token",
			events: []journal.Event{
				accept(1, "@aaaa00001"), accept(2, "@aaaa00002"),
				{Job: 3, Payload: journal.Ignored{Reason: "x"}},
			},
			want: []Verdict{
				{verdict{status: "accepted", token: "@aaaa00001"}, []int64{1}},
				{verdict{status: "accepted", token: "@aaaa00002"}, []int64{2}},
				{verdict{status: "ignored"}, []int64{3}},
			},
		},
		{
			name:   "the same token twice is one group",
			events: []journal.Event{accept(1, "@aaaa00001"), accept(3, "@aaaa00001")},
			want:   []Verdict{{verdict{status: "accepted", token: "@aaaa00001"}, []int64{1, 3}}},
		},
		{
			name: "accepted and started at once",
			events: []journal.Event{
				accept(1, "@aaaa00001"),
				{Job: 1, Time: time.Unix(5, 999), Payload: journal.Running{Attempt: 1}},
				accept(3, "@aaaa00001"),
			},
			want: []Verdict{
				{verdict{status: "running", token: "@aaaa00001", start: 5, times: times{attempts: exactly(1)}}, []int64{1}},
				{verdict{status: "accepted", token: "@aaaa00001"}, []int64{3}},
			},
		},
		{name: "a row nobody locked", events: []journal.Event{accept(9, "@")}, err: "claim job 9: accepted, but it is not among the rows"},
		{name: "a running row", events: []journal.Event{accept(4, "@")}, err: "claim job 4: accepted, but its row is running"},
		{
			name:   "another kind of event",
			events: []journal.Event{{Job: 1, Payload: journal.Running{}}},
			err:    "claim job 1: running: a claim only accepts, plans and ignores",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Verdicts(rows, c.events)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Verdict{}, verdict{}, times{}, number{})); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}
