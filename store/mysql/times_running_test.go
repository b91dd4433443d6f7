package mysql_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
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
			t.Log(findings[0])
			db.exec(t, findings[0].Remedy)
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
