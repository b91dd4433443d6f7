package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store"
	"jobd/store/internal/rule"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// However many rows are not due yet, a claim reads none of them, and sorts nothing of what waits or
// is due but what priority makes it sort; nor does one who asks when the next is due.
func TestClaimsReadNoRowsThatAreNotDue(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	table, err := New(Config{Path: filepath.Join(t.TempDir(), "jobs.db"), Uses: store.TimeColumns(), Logger: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	defer table.Close()
	must.Do(t, table.Check(t.Context()))
	_, err = table.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO jobs (target, time_created, status, run_at) SELECT 'a', 1, 'delayed', 4000000000 + i FROM n`, rows)
	if err == nil {
		_, err = table.db.Exec("INSERT INTO jobs (target, time_created, status, run_at) VALUES ('a', 1, 'waiting', 0), ('a', 1, 'delayed', 5); ANALYZE")
	}
	must.Do(t, err)
	for name, c := range map[string]struct {
		uses store.Uses
		want []string
	}{
		"delays": {store.Uses{"run_at"}, []string{
			"jobs_status_target_idx (status=? AND target=?)", "jobs_status_target_run_at_idx (status=? AND target=? AND run_at<?)",
			"jobs_status_target_run_at_idx (status=? AND target=? AND run_at>?)",
		}},
		"priorities too": {store.TimeColumns(), []string{
			"jobs_status_target_priority_idx (status=? AND target=?)", "jobs_status_target_run_at_idx (status=? AND target=? AND run_at<?)",
			"jobs_status_target_run_at_idx (status=? AND target=? AND run_at>?)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			used := *table.layout.Load()
			used.Uses = c.uses
			statements := used.Choose(rule.Ask{Target: "a", Room: 10}, nil)
			for i, one := range statements {
				plan := explain(t, table.db, one.Query, one.Args...)
				if !strings.Contains(plan, c.want[i]) || strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("%s: %s, want %s", one.Query, plan, c.want[i])
				}
			}
			err := table.transact(t.Context(), func(ctx context.Context, tx *sql.Tx) (bool, error) {
				rows, err := table.lines(ctx, tx, &used, statements, nil)
				if len(rows) != 2 {
					err = fmt.Errorf("%d rows are claimable, %w, want 2", len(rows), err)
				}
				return false, err
			})
			check.Do(t, err)
		})
	}
	query := "SELECT run_at FROM jobs INDEXED BY jobs_status_target_run_at_idx WHERE status = 'delayed' AND target = ? AND " + anID + " AND id NOT IN () ORDER BY run_at LIMIT 1"
	if plan := explain(t, table.db, query, "a"); !strings.Contains(plan, "jobs_status_target_run_at_idx (status=? AND target=?)") || strings.Contains(plan, "TEMP") {
		t.Errorf("the next: %s", plan)
	}
}

// explain is how SQLite carries out a query.
func explain(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows := must.Get(db.Query("EXPLAIN QUERY PLAN "+query, args...))(t)
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		must.Do(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	must.Do(t, rows.Err())
	return strings.Join(steps, "; ")
}
