package mysql_test

import (
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Numbers beyond what we know read as a very large one, NULL as nothing.
func TestPlansBeyondOurNumbers(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL(
		"`run_at` int UNSIGNED NOT NULL DEFAULT 0", "`run_at` bigint UNSIGNED NOT NULL DEFAULT 0",
		"`attempts` smallint UNSIGNED NOT NULL DEFAULT 0", "`attempts` smallint DEFAULT NULL",
		"`priority` tinyint NOT NULL DEFAULT 0", "`priority` tinyint DEFAULT NULL"))
	db.exec(t, "INSERT INTO jobs (id, target, time_created, status, sig, run_at, planned_at, attempts, priority) VALUES "+
		"(1, 'a', 1, 'running', ?, 18446744073709551615, 0, -3, NULL), (2, 'a', 1, 'running', ?, 5, 6, NULL, NULL)", token, token)
	rows, err := db.timedTable(t, allTimes).UnderWay(t.Context(), token, []string{"a"})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	want := []journal.Plan{{RunAt: math.MaxInt64, Attempts: -3}, {RunAt: 5, PlannedAt: 6}}
	check.Diff(t, want, []journal.Plan{*rows[0].Plan, *rows[1].Plan}, "plans")
}

// The server's clock is told right whatever its time zone does: in the hour that comes twice a year,
// local times say nothing. So do the rows of a claim.
func TestNextDueAndClaimsTellTheClockInAnyZone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table := db.timedTable(t, allTimes)
	table.DB().SetMaxOpenConns(1)
	const inTheSecondPass = 1_761_440_400 // 2025-10-26 02:00 in Berlin, in winter time
	db.insertAt(t, "delayed", 1, inTheSecondPass, 0)
	for _, zone := range []string{"+13:00", "-11:00", "+00:00"} {
		must.Get(table.DB().Exec(fmt.Sprintf("SET time_zone = '%s', timestamp = %d.25", zone, inTheSecondPass)))(t)
		got, err := table.NextDue(t.Context(), []string{"a"}, nil)
		if want := time.UnixMicro(inTheSecondPass*1e6 + 250_000); err != nil || !got.Now.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", zone, got.Now, err, want)
		}
		var claimed []time.Time
		err = table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			claimed = append(claimed, rows[0].Now)
			return nil, nil
		})
		if want := time.UnixMicro(inTheSecondPass*1e6 + 250_000); err != nil || len(claimed) != 1 || !claimed[0].Equal(want) {
			t.Errorf("%s: a claim says %v, %v; want %v", zone, claimed, err, want)
		}
	}
}

// acceptAt decides that all rows are accepted, and planned for a time.
func acceptAt(token string, plannedAt int64) store.Decide {
	return func(rows []journal.Row) (events []journal.Event, _ error) {
		for _, row := range rows {
			events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: row.Target, Token: token, PlannedAt: plannedAt, Plan: row.Plan}})
		}
		return events, nil
	}
}

func TestConformanceOfTimes(t *testing.T) {
	t.Parallel()
	storetest.RunTimes(t, func(t *testing.T) storetest.Fixture {
		db := newDatabase(t, timedDDL())
		config := db.config()
		config.Uses = store.TimeColumns()
		return storetest.Fixture{DB: db.app, Table: confirmed(t, open(t, config)), Other: db.table(t), RowLocks: true, Charset: journal.CharsetThreeByte}
	})
}

// withFuture is a database with so many thousand rows that are due in the next century. It gets its
// indexes when they are there, which is faster.
func withFuture(t testing.TB, thousands int) *database {
	t.Helper()
	table := timedDDL()
	from, to := strings.Index(table, ",\n  KEY `status_target_idx`"), strings.Index(table, "\n) ENGINE")
	db := newDatabase(t, table[:from]+table[to:])
	db.exec(t, "INSERT INTO jobs (target, time_created, status, run_at, priority) SELECT 'a', 1, 'delayed', 4000000000 + id, id % 7 FROM ("+
		"WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 1000) SELECT id FROM n) AS thousand")
	for have := 1; have < thousands; have *= 2 {
		db.exec(t, "INSERT INTO jobs (target, time_created, status, run_at, priority) SELECT target, time_created, status, run_at + 1, priority FROM jobs WHERE status = 'delayed' ORDER BY id LIMIT ?",
			1000*min(have, thousands-have))
	}
	db.exec(t, "ALTER TABLE jobs"+strings.NewReplacer(" UNIQUE KEY", " ADD UNIQUE KEY", " KEY", " ADD KEY").Replace(strings.TrimPrefix(table[from:to], ",")))
	db.exec(t, "ANALYZE TABLE jobs")
	return db
}

// insertAt adds a row of a status, with what it says about time, and gives its id.
func (d *database) insertAt(t testing.TB, status string, created, runAt, priority int64) int64 {
	t.Helper()
	result := must.Get(d.app.Exec("INSERT INTO jobs (target, time_created, status, run_at, priority) VALUES ('a', ?, ?, ?, ?)", created, status, runAt, priority))(t)
	id := must.Get(result.LastInsertId())(t)
	return id
}

// handlers is how many rows and entries of indexes the only session of a table has read.
func handlers(t testing.TB, table *mysql.Table) (reads int) {
	t.Helper()
	rows := must.Get(table.DB().Query("SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%' AND Variable_name NOT LIKE '%rnd_deleted'"))(t)
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		must.Do(t, rows.Scan(&name, &n))
		reads += n
	}
	return reads
}

// However many rows are due later, nobody reads them, nor locks them, and what is read is what the
// index has in that order.
func TestFutureRowsAreNotRead(t *testing.T) {
	t.Parallel()
	db := withFuture(t, 500)
	next := db.insertAt(t, "delayed", 1, 3_999_999_998, 9)
	second := db.insertAt(t, "delayed", 1, 3_999_999_999, 9)
	for name, uses := range map[string]store.Uses{"run_at": {"run_at"}, "all": allTimes} {
		t.Run(name, func(t *testing.T) {
			db.exec(t, "UPDATE jobs SET status = 'done' WHERE id > ?", second)
			const room = 4
			var due []int64
			for i := range int64(room + 3) {
				db.insertAt(t, "waiting", 2_000_000_000, 0, 0)
				due = append(due, db.insertAt(t, "delayed", 1, 1000+i, 0))
			}
			table := db.timedTable(t, uses)
			table.DB().SetMaxOpenConns(1)
			queries, args := table.Looks("a", room)
			for i, query := range queries {
				plan := explain(t, db.app, query, args[i]...)
				if !strings.Contains(plan, "key=") || strings.Contains(plan, "filesort") || strings.Contains(plan, "key=PRIMARY") || strings.Contains(plan, "type=ALL") || strings.Contains(plan, "type=index ") {
					t.Errorf("%s\nis done by %s", query, plan)
				}
				t.Log(plan)
			}
			const few = 4*room + 2*110 // a window of due rows is looked at where there are priorities
			within := func(what string, most int, work func() error) {
				t.Helper()
				before := handlers(t, table)
				if err := work(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if reads := handlers(t, table) - before; reads > most {
					t.Errorf("%s reads %d rows", what, reads)
				} else {
					t.Logf("%s reads %d rows", what, reads)
				}
			}
			target, room1 := []string{"a"}, map[string]int{"a": room}
			within("NextDue", 40, func() error {
				got, err := table.NextDue(t.Context(), target, due)
				check.Diff(t, map[string]int64{"a": 3_999_999_998}, got.Next)
				return err
			})
			within("Waiting", 20, func() error {
				_, err := table.Waiting(t.Context(), target, nil)
				return err
			})
			within("CountWaiting", 80, func() error {
				got, err := table.CountWaiting(t.Context(), "a", 100)
				if want := (store.Counted{Rows: 2 * (room + 3), Oldest: 1000}); got != want {
					t.Errorf("counted %+v, want %+v", got, want)
				}
				return err
			})
			within("WaitingTargets", 10, func() error {
				got, err := table.WaitingTargets(t.Context(), 9)
				check.Elements(t, got, []string{"a"}, "targets of waiting rows")
				return err
			})
			within("a claim", few, func() error {
				return table.Claim(t.Context(), room1, []int64{due[0]}, func(rows []journal.Row) ([]journal.Event, error) {
					if got := jobs(rows); !slices.Equal(got, due[1:1+room]) {
						t.Errorf("the claim has %v, want %v", got, due[1:1+room])
					}
					var free int64
					if err := db.app.QueryRow("SELECT id FROM jobs FORCE INDEX (due) WHERE status = 'delayed' AND target = 'a' AND run_at > 5000 ORDER BY run_at LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&free); err != nil || free != next && free != second {
						t.Errorf("the next future row that is not locked is %d, %v; want %d, or the one behind it, as the server locks what ends its search", free, err, next)
					}
					return accept(rows)
				})
			})
			for _, id := range due[1 : 1+room] {
				db.expect(t, id, "status", "accepted")
			}
			within("a claim that finds nothing", 60, func() error {
				return table.Claim(t.Context(), map[string]int{"b": room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
					return nil, fmt.Errorf("it has %v", rows)
				})
			})
		})
	}
}

// explain tells how a query is done, in words.
func explain(t testing.TB, app *sql.DB, query string, args ...any) string {
	t.Helper()
	how := "EXPLAIN "
	if !shared.IsMariaDB() {
		how = "EXPLAIN FORMAT=TRADITIONAL "
	}
	rows := must.Get(app.Query(how+strings.TrimSuffix(query, "; "), args...))(t)
	defer rows.Close()
	names := must.Get(rows.Columns())(t)
	var plan strings.Builder
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		targets := make([]any, len(names))
		for i := range values {
			targets[i] = &values[i]
		}
		must.Do(t, rows.Scan(targets...))
		for i, name := range names {
			if values[i].Valid {
				fmt.Fprintf(&plan, "%s=%s ", strings.ToLower(name), values[i].String)
			}
		}
	}
	return plan.String()
}

func jobs(rows []journal.Row) (ids []int64) {
	for _, row := range rows {
		ids = append(ids, row.Job)
	}
	return ids
}
