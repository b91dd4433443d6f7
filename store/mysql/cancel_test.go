package mysql_test

import (
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/must"
)

// A row is ignored also where stderr has no room for the reason, or can't hold its characters: it
// says as much as fits.
func TestCancelledRowsOfNarrowColumns(t *testing.T) {
	t.Parallel()
	for column, want := range map[string]string{
		"`stderr` varchar(9) CHARACTER SET ascii": "[jobd: ca",
		"`stderr` tinytext CHARACTER SET latin1":  "[jobd: cancelled by ?]\n",
	} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, replaced("`stderr` mediumtext DEFAULT NULL", column))
			db.exec(t, "INSERT INTO jobs (id, target, time_created, status, sig) VALUES (1, 'a', 1, 'accepted', ?), (2, 'a', 1, 'waiting', NULL)", token)
			table, reason := db.table(t), journal.CancelledBy("€")
			got, err := table.Apply(t.Context(), []store.Change{{
				Job: 1, Token: token, Accepted: time.Unix(1, 0), Status: journal.RowIgnored, Done: &journal.Done{Note: reason},
			}})
			if err != nil || got[0].Fate != store.Applied {
				t.Fatalf("Apply: %+v, %v; want it applied", got, err)
			}
			must.Get(table.ClaimManual(t.Context(), []int64{2}, nil, func([]journal.Row) ([]journal.Event, error) {
				return []journal.Event{{Job: 2, Payload: journal.Ignored{Reason: reason, By: "€"}}}, nil
			}))(t)
			for _, id := range []int64{1, 2} {
				db.expect(t, id, "status", "ignored")
				var stderr string
				if err := db.app.QueryRow("SELECT stderr FROM jobs WHERE id = ?", id).Scan(&stderr); err != nil || stderr != want {
					t.Errorf("row %d says %q, %v; want %q", id, stderr, err, want)
				}
			}
		})
	}
}
