package mysql_test

import (
	"fmt"
	"slices"
	"testing"

	"jobd/journal"
	"jobd/store/mysql"
)

// A due row with a higher priority goes first wherever it stands among those that are due for
// longest; those that the claim reads beside it and does not choose are free when it has committed.
func TestHigherPriorityGoesFirstAmongDueRows(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	const rows = 90
	var due []int64
	for i := range int64(rows) {
		due = append(due, db.insertAt(t, "delayed", 1, 1000+i, 3))
	}
	notDue := db.insertAt(t, "delayed", 1, 4_000_000_000, 9)
	table := db.timedTable(t, allTimes)
	db.exec(t, "UPDATE jobs SET priority = 4 WHERE id = ?", due[40])
	db.exec(t, "UPDATE jobs SET priority = 5 WHERE id = ?", due[rows-1])
	db.exec(t, "UPDATE jobs SET priority = -1 WHERE id = ?", due[0])
	for _, want := range []int64{due[rows-1], due[40], due[1], due[2]} {
		claimOne(t, table, want)
	}
	db.begin(t, fmt.Sprintf("SELECT * FROM jobs WHERE id IN (%d, %d) FOR UPDATE NOWAIT", notDue, due[3]))
}

// A waiting row goes before due ones of lower priority, and behind those of the same that were due
// before it was created, though these stand behind others.
func TestWaitingRowsBesideDueOnesOfSeveralPriorities(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	low := db.insertAt(t, "delayed", 1, 1000, 0)
	db.insertAt(t, "delayed", 1, 1001, 0)
	high := db.insertAt(t, "delayed", 1, 2000, 5)
	waiting := db.insertAt(t, "waiting", 3000, 0, 5)
	table := db.timedTable(t, allTimes)
	for _, want := range []int64{high, waiting, low} {
		claimOne(t, table, want)
	}
}

// claimOne claims one row.
func claimOne(t *testing.T, table *mysql.Table, want int64) {
	t.Helper()
	err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		if got := jobs(rows); !slices.Equal(got, []int64{want}) {
			t.Errorf("claimed is %v, want %d", got, want)
		}
		return accept(rows)
	})
	if err != nil {
		t.Error(err)
	}
}
