package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest"
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
			"Waiting": func(table store.Table) error {
				got, err := table.Waiting(t.Context(), []string{"a"}, nil)
				return expectEqual([]string{"a"}, got, err)
			},
			"NextDue": func(table store.Table) error {
				got, err := table.NextDue(t.Context(), []string{"a"}, nil)
				return expectEqual(map[string]int64{"a": 5}, got.Next, err)
			},
			"CountWaiting": func(table store.Table) error {
				got, err := table.CountWaiting(t.Context(), "a", 100)
				return expectEqual(store.Counted{Rows: 13, Oldest: 1}, got, err)
			},
			"Ahead": func(table store.Table) error {
				got, err := table.Ahead(t.Context(), []store.Waiter{{Job: 4711, Target: "a"}}, 100)
				return expectEqual(map[int64]store.Counted{4711: {Rows: 12}}, got, err)
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
				if err := ask(table); err != nil {
					t.Error(err)
				}
				dropped := strings.Count(change, "DROP")
				if change == "DROP INDEX status_target_idx" && (name == "Claim" || name == "NextDue") {
					dropped = 0 // with priorities it is not needed there
				}
				err := table.Claim(t.Context(), map[string]int{"a": 2}, nil, func(rows []journal.Row) ([]journal.Event, error) {
					if dropped > 0 {
						t.Error("rows are claimed without an index that locks no others")
					}
					if diff := cmp.Diff([]int64{due, first}, jobs(rows)); diff != "" {
						t.Errorf("the claim (-want +got):\n%s", diff)
					}
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

func expectEqual[T any](want, got T, err error) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.Join(err, errors.New("(-want +got):\n"+diff))
	}
	return err
}

// An account with grants on columns lacks those on columns that were added since: the GRANT that
// helps is told.
func TestGrantsOnColumns(t *testing.T) {
	t.Parallel()
	const (
		read    = "id, target, time_created, time_started, time_finished, status, result, return_code, sig, stdout, stderr"
		written = "status, time_started, time_finished, result, return_code, sig, stdout, stderr"
	)
	for name, grants := range map[string]string{
		"only to read them": "SELECT (" + read + ", run_at, planned_at, schedule, time_zone, attempts, max_attempts, timeout, priority, unique_key), UPDATE (" + written + ")",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
		})
	}
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

// Ends that make the same of their rows are one statement, also where they are guarded by the
// schedule. Rows whose schedule was edited since are told apart, and left as they are.
func TestEndsOfRecurringRows(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table := db.timedTable(t, allTimes)
	var changes []store.Change
	want := make([]store.Outcome, 50)
	for i := range want {
		id := db.insertAt(t, "running", 1, 5, 0)
		plan := &journal.Plan{RunAt: 5, Schedule: "daily 02:30", Zone: "Europe/Berlin"}
		db.exec(t, "UPDATE jobs SET sig = ?, schedule = ?, time_zone = ? WHERE id = ?", token, plan.Schedule, plan.Zone, id)
		changes = append(changes, store.Change{
			Job: id, Token: token, Status: journal.RowDelayed, Finish: time.Unix(10, 0), Plan: plan,
			Done: &journal.Done{Result: "ok", Again: &journal.Again{RunAt: 100, PlannedAt: 100, Why: journal.AgainSchedule}},
		})
		if i%10 != 3 {
			continue
		}
		found := journal.Plan{RunAt: 5, Schedule: "weekly mon 01:00", Zone: "Asia/Tokyo"}
		if i == 13 {
			found = journal.Plan{RunAt: 5, Schedule: plan.Schedule} // emptied
		}
		db.exec(t, "UPDATE jobs SET schedule = ?, time_zone = NULLIF(?, '') WHERE id = ?", found.Schedule, found.Zone, id)
		want[i] = store.Outcome{Fate: store.Edited, Found: &journal.Row{Job: id, Target: "a", Status: "running", Owner: token, Plan: &found}}
	}
	table.DB().SetMaxOpenConns(1)
	before := updates(t, table)
	got, err := table.Apply(t.Context(), changes)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if n := updates(t, table) - before; n > 1+len(changes) { // one for all, then each by itself to know which were met
		t.Errorf("%d statements", n)
	}
	for i, change := range changes {
		if want[i].Fate == store.Edited {
			db.expect(t, change.Job, "status run_at sig", "running 5 "+token)
		} else {
			db.expect(t, change.Job, "status run_at planned_at sig", "delayed 100 100 -")
		}
	}
	for i := range changes {
		db.exec(t, "UPDATE jobs SET status = 'running', sig = ?, schedule = 'daily 02:30', time_zone = 'Europe/Berlin' WHERE id = ?", token, changes[i].Job)
	}
	before = updates(t, table)
	if _, err := table.Apply(t.Context(), changes); err != nil || updates(t, table)-before != 1 {
		t.Errorf("%d statements for equal ends, %v; want one", updates(t, table)-before, err)
	}
}

// updates counts the statements of the only session of a table that update rows.
func updates(t testing.TB, table *mysql.Table) (n int) {
	t.Helper()
	var name string
	must.Do(t, table.DB().QueryRow("SHOW SESSION STATUS LIKE 'Com_update'").Scan(&name, &n))
	return n
}

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

// timekeeperTable is the usual table with all optional columns and what goes with them.
func timekeeperTable() string {
	return replaced("'done','ignored'", "'done','ignored','delayed'", "`stdout` mediumtext", "`run_at` bigint UNSIGNED NOT NULL DEFAULT 0, "+
		"`planned_at` int UNSIGNED NOT NULL DEFAULT 0, `schedule` varchar(64) DEFAULT NULL, `time_zone` varchar(64) DEFAULT NULL, "+
		"`attempts` smallint UNSIGNED NOT NULL DEFAULT 0, `max_attempts` smallint UNSIGNED DEFAULT NULL, `timeout` int UNSIGNED DEFAULT NULL, "+
		"KEY `status_target_due_idx` (`status`, `target`, `run_at`), `stdout` mediumtext")
}

func TestTimekeeper(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, shared, timekeeperTable())
	config := db.config()
	for _, name := range store.TimeColumns() {
		if name != store.ColumnPriority && name != store.ColumnUniqueKey {
			config.Uses = append(config.Uses, name)
		}
	}
	storetest.RunTimekeeper(t, db.app, confirmed(t, open(t, config)), db.table(t))
}

// Of twenty thousand rows that have ended none is read on the way to those that recur.
func TestRowsThatHaveEndedAreNotReadForThoseThatRecur(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, shared, timekeeperTable())
	config := db.config()
	config.Uses = store.Uses{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnSchedule}
	db.double(t, "a", 20_000)
	db.exec(t, "UPDATE jobs SET status = 'done', schedule = 'every 5m'")
	db.exec(t, "INSERT INTO jobs (target, time_created, status, schedule) VALUES ('a', 1, 'delayed', 'every 5m')")
	db.exec(t, "ANALYZE TABLE jobs")
	log := &statements{}
	db.record(t, log, func() {
		table := confirmed(t, open(t, config))
		if rows, err := table.Recurring(t.Context(), []string{"a"}, 0, 100); err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	query := log.with("ORDER BY id + 0")
	// Until MySQL has swept up what the update left in the index, it counts that, too.
	plan, again := "", time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for range 600 {
		if plan = strings.Join(db.plan(t, unlimited(query)), "\n"); strings.Contains(plan, "key=status_target") {
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
	db := newDatabaseOn(t, shared, timekeeperTable())
	db.exec(t, "CREATE INDEX schedule_idx ON jobs (schedule)")
	config := db.config()
	for _, name := range store.TimeColumns() {
		if name != store.ColumnPriority && name != store.ColumnUniqueKey {
			config.Uses = append(config.Uses, name)
		}
	}
	storetest.RunTimekeeper(t, db.app, confirmed(t, open(t, config)), db.table(t))
	db.exec(t, "DELETE FROM jobs")
	db.double(t, "a", 5_000)
	db.exec(t, "UPDATE jobs SET status = 'delayed', schedule = 'every 5m'")
	db.exec(t, "ANALYZE TABLE jobs")
	log := &statements{}
	db.record(t, log, func() {
		rows, err := confirmed(t, open(t, config)).Recurring(t.Context(), []string{"a"}, 0, 100)
		if err != nil || len(rows) != 100 || !slices.IsSortedFunc(rows, func(a, b *store.Seen) int { return int(a.Job - b.Job) }) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	query := log.with("ORDER BY id + 0")
	if plan := strings.Join(db.plan(t, unlimited(query)), "\n"); !strings.Contains(plan, "key=schedule_idx") || !strings.Contains(plan, "Using index") {
		t.Errorf("%s: %s", query, plan)
	}
}
