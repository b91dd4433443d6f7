package mysql_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
)

// Four claimers take waiting and due rows while others become due and come back: none is taken
// twice, and nothing is lost to a deadlock.
func TestRaceForDueAndWaitingRows(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	const rows, claimers = 400, 4
	for i := range int64(rows / 2) {
		db.exec(t, "INSERT INTO jobs (target, time_created, status, run_at, priority) VALUES ('a', 5, 'waiting', 0, ?), ('a', 1, 'delayed', ?, ?)", i%3, 1+i%50, i%3)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var mu sync.Mutex
	taken := map[int64]int{}
	left := rows * 2 // each comes back once
	var group sync.WaitGroup
	for n := range claimers {
		table := db.timedTable(t, allTimes)
		group.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				mu.Lock()
				over := left == 0
				mu.Unlock()
				if over {
					return
				}
				if err := takeAndReturn(ctx, table, fmt.Sprintf("@wr%d%06d", n, round), &mu, taken, &left); err != nil {
					t.Errorf("claimer %d: %v", n, err)
					return
				}
			}
		})
	}
	group.Wait()
	for id, times := range taken {
		if times != 2 {
			t.Errorf("job %d was taken %d times", id, times)
		}
	}
	if len(taken) != rows || left != 0 {
		t.Errorf("%d rows were taken, %d are left", len(taken), left)
	}
}

// takeAndReturn claims some rows and ends them: the first time they come back at once.
func takeAndReturn(ctx context.Context, table *mysql.Table, token string, mu *sync.Mutex, taken map[int64]int, left *int) error {
	var changes []store.Change
	err := table.Claim(ctx, map[string]int{"a": 7}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		for _, row := range rows {
			end := &journal.Done{Result: "fail"}
			change := store.Change{Job: row.Job, Token: token, Status: journal.RowDone, Finish: time.Unix(9, 0), Attempts: row.Plan.Attempts + 1, Plan: row.Plan, Done: end}
			if row.Plan.Attempts == 0 {
				change.Status, end.Again = journal.RowDelayed, &journal.Again{RunAt: 3, PlannedAt: 2, Attempts: 1, Why: journal.AgainRetry}
			}
			changes = append(changes, change)
		}
		return acceptAt(token, 2)(rows)
	})
	if err != nil || len(changes) == 0 {
		return err
	}
	mu.Lock()
	for _, change := range changes {
		taken[change.Job]++
		*left--
	}
	mu.Unlock()
	outcomes, err := table.Apply(ctx, changes)
	for i, outcome := range outcomes {
		if outcome != (store.Outcome{}) {
			return fmt.Errorf("job %d: %+v", changes[i].Job, outcome)
		}
	}
	return err
}
