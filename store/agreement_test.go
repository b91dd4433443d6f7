package store_test

import (
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
)

// After a failover to a replica that had lagged, old ids were given out again, and reapply marked
// the new jobs as done. A row that was created later than the claim is another job; one of the same
// second is not.
func TestARowCreatedAfterTheClaimIsAnotherJob(t *testing.T) {
	t.Parallel()
	claimed := time.Unix(1000, 900_000_000)
	done := journal.Job{
		ID: 1, Target: "a", Token: token(1), Status: journal.StatusDone, Accepted: journal.Moment{Time: claimed}, Ended: claimed, Result: "ok",
	}
	ignored := journal.Job{ID: 1, Status: journal.StatusIgnored, Ended: claimed}
	for _, test := range []struct {
		name string
		job  journal.Job
		row  store.Seen
		want bool
	}{
		{"created before", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 999}, false},
		{"in the same second", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 1000}, false},
		{"later", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 1001}, true},
		{"later, of a job that was ignored", ignored, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 1001}, true},
		{"not told", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, false},
		{"the clocks differ", done, store.Seen{Row: journal.Row{Status: journal.RowRunning, Owner: token(1)}, Created: 1001}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.row.Job, test.row.Target = 1, "a"
			got := strings.Contains(store.Refusal(test.job, &test.row, false), "another job with the same id")
			if got != test.want || store.IsAnotherJob(test.job, &test.row) != test.want {
				t.Errorf("refusal %q, another job: %t; want %t", store.Refusal(test.job, &test.row, false), !test.want, test.want)
			}
		})
	}
}
