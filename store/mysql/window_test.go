package mysql_test

import (
	"slices"
	"testing"

	"jobd/journal"
	"jobd/store/mysql"
)

// Of due rows no more are locked and read than are wanted, as long as all that come first have one
// priority. One with a higher priority among them goes first all the same, wherever it stands, and when
// it is gone no more are read again.
func TestNoMoreDueRowsAreReadThanAreWanted(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	const rows, room = 90, 4
	var due []int64
	for i := range int64(rows) {
		due = append(due, db.insertAt(t, "delayed", 1, 1000+i, 3))
	}
	db.insertAt(t, "delayed", 1, 4_000_000_000, 9)
	table := db.timedTable(t, allTimes)
	claimed := func(want []int64, most int) {
		t.Helper()
		before := lockedRows(t, db)
		err := table.Claim(t.Context(), map[string]int{"a": room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			if got := jobs(rows); !slices.Equal(got, want) {
				t.Errorf("claimed are %v, want %v", got, want)
			}
			if locked := lockedRows(t, db) - before; locked > most {
				t.Errorf("%d rows are locked, want %d at most", locked, most)
			}
			return accept(rows)
		})
		if err != nil {
			t.Error(err)
		}
	}
	claimed(due[:4], room+1)
	claimed(due[4:8], room+1)
	first, last := due[40], due[rows-1]
	db.exec(t, "UPDATE jobs SET priority = 4 WHERE id = ?", first)
	db.exec(t, "UPDATE jobs SET priority = 5 WHERE id = ?", last)
	claimed([]int64{last, first, due[8], due[9]}, rows)
	claimed(due[10:14], rows) // the last time that all are read
	claimed(due[14:18], room+1)
	db.exec(t, "UPDATE jobs SET priority = -1 WHERE id = ?", due[18])
	claimed(due[19:23], rows)
	claimed(due[23:27], rows) // the one that comes later is due for longest still
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

// lockedRows counts the due rows that somebody holds.
func lockedRows(t *testing.T, db *database) int {
	t.Helper()
	tx, err := db.app.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	free, all := 0, 0
	rows, err := tx.QueryContext(t.Context(), "SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE status = 'delayed' AND run_at < 5000 FOR UPDATE SKIP LOCKED")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		free++
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.app.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs WHERE status = 'delayed' AND run_at < 5000").Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all - free
}
