package sqlite_test

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"jobd/journal"
	"jobd/store/sqlite"
	"jobd/store/storetest/must"
)

// Regression: a row with the least id that there is waited for ever, and nobody was told: claims
// began behind it.
func TestTheRowWithTheLeastIDIsClaimed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path}))
	must.Do(t, table.Check(t.Context()))
	ids := []int64{math.MinInt64, math.MinInt64 + 1, 7, math.MaxInt64}
	db := application(t, path)
	for _, id := range ids {
		exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (?, 'a', 1)", id)
	}
	var seen []int64
	look := func(rows []journal.Row) ([]journal.Event, error) {
		seen = nil
		for _, row := range rows {
			seen = append(seen, row.Job)
		}
		return nil, nil
	}
	if err := table.Claim(t.Context(), map[string]int{"a": 9}, []int64{math.MinInt64}, look); err != nil || !slices.Equal(seen, ids[1:]) {
		t.Errorf("all but the least id: %v, %v", seen, err)
	}
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 9}, nil, func(rows []journal.Row) (events []journal.Event, _ error) {
		for _, row := range rows {
			events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: row.Target, Token: "@abcd01234"}})
		}
		return events, nil
	}))
	rows, _, err := table.Rows(t.Context(), ids)
	statuses := map[int64]string{}
	for _, row := range rows {
		statuses[row.Job] = row.Status
	}
	want := map[int64]string{math.MinInt64: "accepted", math.MinInt64 + 1: "accepted", 7: "accepted", math.MaxInt64: "accepted"}
	if err != nil || !maps.Equal(statuses, want) {
		t.Errorf("rows are %v, %v; want %v", statuses, err, want)
	}
}

// Statements that a connection has prepared once see what the application makes of its table meanwhile.
func TestStatementsFollowTheTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	table := confirmed(t, open(t, sqlite.Config{Path: path}))
	must.Do(t, table.Check(t.Context()))
	db := application(t, path)
	exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (7, 'a', 1)")
	claim := func(want ...int64) {
		t.Helper()
		var seen []int64
		err := table.Claim(t.Context(), map[string]int{"a": 9}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			for _, row := range rows {
				seen = append(seen, row.Job)
			}
			return nil, nil
		})
		if err != nil || !slices.Equal(seen, want) {
			t.Errorf("jobs %v, %v; want %v", seen, err, want)
		}
	}
	claim(7)
	exec(t, db, "ALTER TABLE jobs ADD COLUMN customer TEXT")
	exec(t, db, "INSERT INTO jobs (id, target, time_created) VALUES (8, 'a', 1)")
	claim(7, 8)
	exec(t, db, "ALTER TABLE jobs RENAME TO former")
	exec(t, db, "CREATE TABLE jobs AS SELECT * FROM former WHERE id = 8")
	exec(t, db, "DROP TABLE former")
	claim(8)
}
