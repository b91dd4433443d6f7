package storetest

import (
	"database/sql"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

// RunTimekeeper tests what a table tells people about time. The table has all optional columns, which
// uses names and plain does not; it is empty.
func RunTimekeeper(t *testing.T, db *sql.DB, uses, plain store.Table) {
	s := &timekeeping{T: t, db: db}
	const far = 4_000_000_000
	daily := s.insert("a", "delayed", "run_at = ?, planned_at = ?, schedule = 'daily 02:30', time_zone = 'Europe/Berlin', result = 'fail', return_code = 3, time_started = 5, time_finished = 7", far, far)
	waits := s.insert("a", "waiting", "schedule = 'every 5m', attempts = 0")
	runs := s.insert("b", "running", "schedule = 'hourly :15', planned_at = 60, attempts = 2, sig = '@abcd01234'")
	s.insert("a", "done", "schedule = 'every 5m'")
	s.insert("a", "delayed", "run_at = 50, max_attempts = 4, timeout = 9")
	s.insert("a", "waiting", "schedule = ''")
	s.insert("c", "waiting", "schedule = 'every 5m'")
	three := int64(3)
	want := []*store.Seen{
		{
			Row: journal.Row{
				Job: daily, Target: "a", Status: "delayed",
				Plan: &journal.Plan{RunAt: far, PlannedAt: far, Schedule: "daily 02:30", Zone: "Europe/Berlin"},
			}, Created: 1, Started: 5, Finished: 7, Result: "fail", Code: &three,
		},
		{Row: journal.Row{Job: waits, Target: "a", Status: "waiting", Plan: &journal.Plan{Schedule: "every 5m"}}, Created: 1},
		{
			Row: journal.Row{
				Job: runs, Target: "b", Status: "running", Owner: "@abcd01234",
				Plan: &journal.Plan{PlannedAt: 60, Attempts: 2, Schedule: "hourly :15"},
			}, Created: 1,
		},
	}
	s.recurring(uses, math.MinInt64, 10, want...)
	s.recurring(uses, math.MinInt64, 2, want[:2]...)
	s.recurring(uses, waits, 10, want[2])
	s.recurring(uses, runs, 10)
	s.delayed(uses, 10, daily+4, daily)
	s.delayed(uses, 1, daily+4)
	if _, err := plain.Delayed(t.Context(), []string{"a"}, 10); !errors.Is(err, store.ErrNoDelays) {
		t.Errorf("of a table without run_at: %v", err)
	}
	if _, err := plain.Free(t.Context(), "delayed", []string{"a"}, math.MaxInt64, 10); !errors.Is(err, store.ErrNoDelays) {
		t.Errorf("free rows of a table without run_at: %v", err)
	}
	if free, err := uses.Free(t.Context(), "delayed", []string{"a"}, math.MaxInt64, 1); err != nil || len(free) != 1 || free[0].Job != daily+4 || free[0].Plan.RunAt != 50 {
		t.Errorf("delayed rows, the newest first: %v, %v", free, err)
	}
	if _, err := plain.Recurring(t.Context(), []string{"a"}, 0, 10); !errors.Is(err, store.ErrNoSchedules) {
		t.Errorf("of a table without schedules: %v", err)
	}
	s.plans(uses, map[int64]*journal.Plan{
		daily: want[0].Plan, runs: want[2].Plan, daily + 4: {RunAt: 50, MaxAttempts: 4, Timeout: 9},
	}, daily, runs, daily+4, 999_999)
	s.plans(plain, map[int64]*journal.Plan{daily: nil}, daily)
	s.insert("a", "delayed", "run_at = 60")
	s.due(uses, "a", 0, 10, store.Counted{Rows: 2, Oldest: 50})
	s.due(uses, "a", 0, 1, store.Counted{Rows: 1, More: true, Oldest: 50})
	s.due(uses, "a", 60, 10, store.Counted{Rows: 1, Oldest: 50})
	s.due(uses, "b", 0, 10, store.Counted{})
	s.due(uses, "no such target, and far longer than the column is", 0, 10, store.Counted{})
	s.due(plain, "a", 0, 10, store.Counted{})
}

// timekeeping is what its test works with.
type timekeeping struct {
	*testing.T
	db *sql.DB
}

// insert adds a row, and gives its id.
func (s *timekeeping) insert(target, status, set string, args ...any) int64 {
	s.Helper()
	result, err := s.db.Exec("INSERT INTO jobs (target, time_created, status) VALUES (?, 1, ?)", target, status)
	if err != nil {
		s.Fatal(err)
	}
	id, err := result.LastInsertId()
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE jobs SET "+set+" WHERE id = ?", append(args, id)...); err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *timekeeping) recurring(table store.Table, after int64, limit int, want ...*store.Seen) {
	s.Helper()
	got, err := table.Recurring(s.Context(), []string{"a", "b", "none"}, after, limit)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		s.Errorf("recurring after %d (-want +got):\n%s", after, diff)
	}
}

// delayed compares the ids of delayed rows, and that each has its plan.
func (s *timekeeping) delayed(table store.Table, limit int, want ...int64) {
	s.Helper()
	rows, err := table.Delayed(s.Context(), []string{"a", "none", "b"}, limit)
	if err != nil {
		s.Fatal(err)
	}
	var got []int64
	for _, row := range rows {
		if got = append(got, row.Job); row.Status != journal.RowDelayed || row.Plan.RunAt == 0 {
			s.Errorf("a delayed row is %+v, with %+v", row, row.Plan)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("the first %d delayed rows (-want +got):\n%s", limit, diff)
	}
}

func (s *timekeeping) plans(table store.Table, want map[int64]*journal.Plan, ids ...int64) {
	s.Helper()
	rows, err := table.Look(s.Context(), ids)
	if err != nil {
		s.Fatal(err)
	}
	got := map[int64]*journal.Plan{}
	for id, row := range rows {
		got[id] = row.Plan
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("plans (-want +got):\n%s", diff)
	}
}

func (s *timekeeping) due(table store.Table, target string, before int64, most int, want store.Counted) {
	s.Helper()
	if got, err := table.CountDue(s.Context(), target, before, most); err != nil || got != want {
		s.Errorf("due of %s before %d: %+v, %v, want %+v", target, before, got, err, want)
	}
}
