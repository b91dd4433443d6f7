package mysql_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// The application may rename an index while the worker runs, or drop it: that is no outage. The
// table is looked at again. Rows are claimed on where the index has another name; without it nothing
// is, since a locking read would lock all that is there, and the error says what helps.
func TestAnIndexIsDroppedWhileTheWorkerRuns(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		"RENAME INDEX due TO due_by_now", "RENAME INDEX status_target_idx TO s", "RENAME INDEX first TO f",
		"DROP INDEX due", "DROP INDEX status_target_idx", "DROP INDEX first", "DROP INDEX due, DROP INDEX first, DROP INDEX status_target_idx",
	} {
		for name, ask := range map[string]func(table store.Table) error{
			"Claim": func(store.Table) error { return nil },
			"NextDue": func(table store.Table) error {
				got, err := table.NextDue(t.Context(), []string{"a"}, nil)
				check.Diff(t, map[string]int64{"a": 5}, got.Next)
				return err
			},
			"Ahead": func(table store.Table) error {
				got, err := table.Ahead(t.Context(), []store.Waiter{{Job: 4711, Target: "a"}}, 100)
				check.Diff(t, map[int64]store.Counted{4711: {Rows: 12}}, got)
				return err
			},
		} {
			t.Run(change+" before "+name, func(t *testing.T) {
				t.Parallel()
				db := newDatabase(t, timedDDL())
				var written log
				config := db.config()
				config.Uses, config.Logger = allTimes, written.logger()
				table := confirmed(t, open(t, config))
				due, first := db.insertAt(t, "delayed", 1, 5, 9), db.insertAt(t, "waiting", 1, 0, 8)
				for range 11 {
					db.insertAt(t, "waiting", 1, 0, 0)
				}
				var all []int64
				for range 20 {
					all = append(all, db.insertAt(t, "delayed", 1, 4_000_000_000, 0))
				}
				db.exec(t, "ALTER TABLE jobs "+change)
				check.Do(t, ask(table))
				dropped := strings.Count(change, "DROP")
				if change == "DROP INDEX status_target_idx" && (name == "Claim" || name == "NextDue") {
					dropped = 0 // with priorities it is not needed there
				}
				err := table.Claim(t.Context(), map[string]int{"a": 2}, nil, func(rows []journal.Row) ([]journal.Event, error) {
					if dropped > 0 {
						t.Error("rows are claimed without an index that locks no others")
					}
					check.Diff(t, []int64{due, first}, jobs(rows), "the claim")
					free := db.unlocked(t)
					if n := len(free); n < 11+len(all)-1 { // one may be locked that ends the server's search
						t.Errorf("the claim of two rows lets others have %d of %d", n, 11+len(all))
					}
					return acceptAt(token, 7)(rows)
				})
				if dropped > 0 {
					if !unusable(err) || strings.Count(err.Error(), "ADD INDEX") != dropped {
						t.Errorf("the claim: %v; want an error with the ALTER TABLE that helps", err)
					}
					db.expect(t, due, "status planned_at", "delayed 0")
				} else if err != nil {
					t.Error(err)
				} else {
					db.expect(t, due, "status planned_at", "accepted 7")
				}
				if n := strings.Count(written.String(), "level=WARN"); (n > 0) != (dropped > 0) || strings.Count(written.String(), "ADD INDEX") != dropped {
					t.Errorf("%d warnings:\n%s", n, written.String())
				}
				fresh := open(t, config).Check(t.Context())
				if fresh != nil {
					t.Errorf("a start: %v", fresh)
				}
			})
		}
	}
}

// An account with grants on columns lacks those on columns that were added since: the GRANT that
// helps is told.
func TestGrantsOnColumns(t *testing.T) {
	t.Parallel()
	const (
		read    = "id, target, time_created, time_started, time_finished, status, result, return_code, sig, stdout, stderr"
		written = "status, time_started, time_finished, result, return_code, sig, stdout, stderr"
	)
	grants := "SELECT (" + read + ", run_at, planned_at, schedule, time_zone, attempts, max_attempts, timeout, priority, unique_key), " +
		"UPDATE (" + written + ")"
	db := newDatabase(t, timedDDL())
	user := "who_" + db.name
	db.exec(t, "CREATE USER "+user+"@'%' IDENTIFIED BY 'hunter2'; GRANT "+grants+" ON jobs TO "+user+"@'%'")
	config := db.config()
	config.User, config.Password = user, "hunter2"
	if err := open(t, config).Check(t.Context()); err != nil {
		t.Fatalf("without the columns: %v", err)
	}
	config.Uses = allTimes
	problem := open(t, config).Check(t.Context())
	findings, err := open(t, config).Findings(t.Context(), nil)
	if !unusable(problem) || err == nil || len(findings) != 1 || !strings.Contains(findings[0].What, "UPDATE command denied") {
		t.Fatalf("Check: %v, findings %q, %v", problem, findings, err)
	}
	db.exec(t, "GRANT SELECT, UPDATE ON jobs TO "+user+"@'%'")
	table := confirmed(t, open(t, config))
	id := db.insertAt(t, "delayed", 1, 5, 0)
	if err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, acceptAt(token, 7)); err != nil {
		t.Errorf("behind it: %v", err)
	}
	db.expect(t, id, "status planned_at", "accepted 7")
}

// A number that its column can't hold is cut: no row is left behind for that.
func TestNumbersThatDoNotFitAreCut(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL("`planned_at` int UNSIGNED", "`planned_at` bigint UNSIGNED"))
	table := db.timedTable(t, allTimes)
	id := db.insertAt(t, "delayed", 1, 5, 0)
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		events, err := acceptAt(token, -8)(rows)
		return append(events, journal.Event{Job: id, Time: time.Unix(9, 0), Payload: journal.Running{Attempt: 70_000}}), err
	}))
	db.expect(t, id, "status attempts planned_at", "running 65535 0")
	again := store.Change{Job: id, Token: token, Status: journal.RowDelayed, Finish: time.Unix(10, 0), Done: &journal.Done{Result: "fail", Again: &journal.Again{RunAt: 1 << 40, PlannedAt: 1 << 40, Attempts: -1}}}
	if got, err := table.Apply(t.Context(), []store.Change{again}); err != nil || got[0] != (store.Outcome{}) {
		t.Fatalf("Apply: %+v, %v", got, err)
	}
	db.expect(t, id, "status run_at planned_at attempts", "delayed 4294967295 1099511627776 0")
}

func TestTimekeeper(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	storetest.RunTimekeeper(t, db.app, db.timedTable(t, allTimes), db.table(t))
}

// Of twenty thousand rows that have ended none is read on the way to those that recur.
func TestRowsThatHaveEndedAreNotReadForThoseThatRecur(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	db.double(t, "a", 20_000)
	db.exec(t, "UPDATE jobs SET status = 'done', schedule = 'every 5m'")
	db.exec(t, "INSERT INTO jobs (target, time_created, status, schedule) VALUES ('a', 1, 'delayed', 'every 5m')")
	db.exec(t, "ANALYZE TABLE jobs")
	log := &statements{}
	db.record(t, log, func() {
		table := db.timedTable(t, store.Uses{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnSchedule})
		if rows, err := table.Recurring(t.Context(), []string{"a"}, 0, 100); err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	query := log.with("ORDER BY id + 0")
	// Until MySQL has swept up what the update left in the index, it counts that, too.
	plan, again := "", time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for range 600 {
		plan = explain(t, db.app, unlimited(query))
		if strings.Contains(plan, " key=") && !strings.Contains(plan, "key=PRIMARY") {
			return
		}
		<-again.C
		db.exec(t, "ANALYZE TABLE jobs")
	}
	t.Errorf("%s: %s", query, plan)
}

// By an index on the schedule a list of what recurs reads no row that it does not give, whatever the order in which
// those rows come.
func TestAnIndexOnTheScheduleAloneTellsWhatRecurs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	db.exec(t, "CREATE INDEX schedule_idx ON jobs (schedule)")
	storetest.RunTimekeeper(t, db.app, db.timedTable(t, allTimes), db.table(t))
	db.exec(t, "DELETE FROM jobs")
	db.double(t, "a", 5_000)
	db.exec(t, "UPDATE jobs SET status = 'delayed', schedule = 'every 5m'")
	db.exec(t, "ANALYZE TABLE jobs")
	log := &statements{}
	db.record(t, log, func() {
		rows, err := db.timedTable(t, allTimes).Recurring(t.Context(), []string{"a"}, 0, 100)
		if err != nil || len(rows) != 100 || !slices.IsSortedFunc(rows, func(a, b *store.Seen) int { return int(a.Job - b.Job) }) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	query := log.with("ORDER BY id + 0")
	if plan := explain(t, db.app, unlimited(query)); !strings.Contains(plan, "key=schedule_idx") || !strings.Contains(plan, "Using index") {
		t.Errorf("%s: %s", query, plan)
	}
}
