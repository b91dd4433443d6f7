package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest"
	"jobd/store/storetest/must"
)

// oldServers are a version without SKIP LOCKED, and ""; that is the real one's.
func oldServers() []string {
	return []string{"", "5.7.44"}
}

// Higher priority goes first, then what is earlier: waiting rows by when they were created, due ones
// by when they are due. There are never more than there is room for, and the others are free.
func TestClaimsInOrder(t *testing.T) {
	t.Parallel()
	for _, version := range oldServers() {
		t.Run("server "+version, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, timedDDL())
			early := db.insertAt(t, "waiting", 100, 0, 0)
			late := db.insertAt(t, "waiting", 300, 0, 0)
			dueLate := db.insertAt(t, "delayed", 1, 400, 0)
			dueEarly := db.insertAt(t, "delayed", 1, 200, 0)
			low := db.insertAt(t, "waiting", 50, 0, -1)
			dueHigh := db.insertAt(t, "delayed", 1, 500, 5)
			high := db.insertAt(t, "waiting", 600, 0, 6)
			higher := db.insertAt(t, "waiting", 700, 0, 5)
			db.insertAt(t, "delayed", 1, 4_000_000_000, 100)
			for _, c := range []struct {
				uses store.Uses
				want []int64
			}{
				{allTimes, []int64{high, dueHigh, higher, early, dueEarly, late, dueLate, low}},
				{store.Uses{"run_at"}, []int64{early, dueEarly, late, low, dueLate, dueHigh, high, higher}},
				{store.Uses{"priority"}, []int64{high, higher, early, late, low}},
				{nil, []int64{early, late, low, high, higher}},
			} {
				table := db.timedTable(t, c.uses)
				if version != "" {
					must.Do(t, table.Pretend(version))
				}
				for _, room := range []int{1, 3, 100} {
					must.Do(t, table.Claim(t.Context(), map[string]int{"a": room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
						if diff := cmp.Diff(c.want[:min(room, len(c.want))], jobs(rows)); diff != "" {
							t.Errorf("using %v, %d of them (-want +got):\n%s", c.uses, room, diff)
						}
						return nil, nil
					}))
				}
			}
		})
	}
}

// Waiting rows of which nobody knows when they were created, and due ones, don't hold up each other.
func TestClaimsOfRowsThatWereCreatedWhoKnowsWhen(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL("`time_created` int(10) UNSIGNED NOT NULL", "`time_created` datetime DEFAULT NULL"))
	db.exec(t, "INSERT INTO jobs (target, status, run_at) VALUES ('a', 'waiting', 0), ('a', 'delayed', 5)")
	table := db.timedTable(t, allTimes)
	seen := map[string]bool{}
	for range 1000 {
		must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			seen[rows[0].Status] = true
			return nil, nil
		}))
		if len(seen) == 2 {
			return
		}
	}
	t.Errorf("in 1000 claims only these came first: %v", seen)
}

// What rows say about time is read in every way in which rows are read; NULL reads as nothing, and
// numbers beyond what we know as a very large one.
func TestPlansAreRead(t *testing.T) {
	t.Parallel()
	loose := []string{
		"`run_at` int UNSIGNED NOT NULL DEFAULT 0", "`run_at` bigint UNSIGNED NOT NULL DEFAULT 0", "`planned_at` int UNSIGNED NOT NULL DEFAULT 0", "`planned_at` bigint UNSIGNED NOT NULL DEFAULT 0",
		"`attempts` smallint UNSIGNED NOT NULL DEFAULT 0", "`attempts` smallint DEFAULT NULL", "`priority` tinyint NOT NULL DEFAULT 0", "`priority` tinyint DEFAULT NULL",
	}
	db := newDatabase(t, timedDDL(loose...))
	db.exec(t, `INSERT INTO jobs (id, target, time_created, status, sig, run_at, planned_at, schedule, time_zone, attempts, max_attempts, timeout, priority) VALUES
		(1, 'a', 1, 'manual', NULL, 5, 6, 'daily 02:30', 'Europe/Berlin', 3, 4, 60, 7),
		(2, 'a', 1, 'manual', NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL),
		(3, 'a', 1, 'running', '@abcd01234', 18446744073709551615, 0, '', '', -3, NULL, NULL, NULL)`)
	full := journal.Plan{RunAt: 5, PlannedAt: 6, Attempts: 3, MaxAttempts: 4, Timeout: 60, Schedule: "daily 02:30", Zone: "Europe/Berlin"}
	wants := map[int64]*journal.Plan{1: &full, 2: {}, 3: {RunAt: 9223372036854775807, Attempts: -3}}
	for name, c := range map[string]struct {
		uses store.Uses
		want map[int64]*journal.Plan
	}{
		"all":  {allTimes, wants},
		"some": {store.Uses{"timeout"}, map[int64]*journal.Plan{1: {Timeout: 60}, 2: {}, 3: {}}},
		"none": {nil, map[int64]*journal.Plan{1: nil, 2: nil, 3: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			table := db.timedTable(t, c.uses)
			got := map[string]map[int64]*journal.Plan{}
			note := func(how string, rows ...journal.Row) {
				if got[how] == nil {
					got[how] = map[int64]*journal.Plan{}
				}
				for _, row := range rows {
					got[how][row.Job] = row.Plan
				}
			}
			ids, target := []int64{1, 2, 3}, []string{"a"}
			rows, _, err := table.Rows(t.Context(), ids)
			note("Rows", rows...)
			seen, err1 := table.Look(t.Context(), ids)
			details, err2 := table.Details(t.Context(), ids, target, 10)
			for _, id := range ids {
				note("Look", seen[id].Row)
				note("Details", details[id].Row)
			}
			_, err3 := table.ClaimManual(t.Context(), ids, target, func(rows []journal.Row) ([]journal.Event, error) {
				note("ClaimManual", rows...)
				return nil, nil
			})
			under, err4 := table.UnderWay(t.Context(), "@abcd", target)
			must.Do(t, errors.Join(err, err1, err2, err3, err4))
			for how, plans := range got {
				if diff := cmp.Diff(c.want, plans); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
			if len(under) != 1 || !cmp.Equal(under[0].Plan, c.want[3]) {
				t.Errorf("under way: %+v", under)
			}
		})
	}
}

// When the next row is due, by the server's clock, for all targets in one look; what somebody has
// locked is there too, and what is left out is not.
func TestNextDue(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	past, first, second := db.insertAt(t, "delayed", 1, 5, 0), db.insertAt(t, "delayed", 1, 4_000_000_000, 0), db.insertAt(t, "delayed", 1, 4_000_000_001, 0)
	db.exec(t, "INSERT INTO jobs (target, time_created, status, run_at) VALUES ('b', 1, 'delayed', 4000000002), ('c', 1, 'waiting', 7), ('d', 1, 'done', 8)")
	holder := db.begin(t, fmt.Sprint("SELECT * FROM jobs WHERE id = ", first, " FOR UPDATE"))
	defer holder.Rollback()
	var many []string
	for i := range 250 {
		many = append(many, fmt.Sprint("t", i))
	}
	table := db.timedTable(t, allTimes)
	for name, c := range map[string]struct {
		except []int64
		want   int64
	}{"what is due already": {nil, 5}, "what is locked": {[]int64{past, 4711}, 4_000_000_000}, "behind it": {[]int64{past, first}, 4_000_000_001}, "none": {[]int64{past, first, second}, 0}} {
		got, err := table.NextDue(t.Context(), append([]string{"a", "b", "c", "d", "дом\U0001F600"}, many...), c.except)
		want := map[string]int64{"a": c.want, "b": 4_000_000_002}
		if c.want == 0 {
			delete(want, "a")
		}
		if diff := cmp.Diff(want, got.Next); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if skew := time.Since(got.Now).Abs(); skew > time.Minute {
			t.Errorf("the server's clock is %v off", skew)
		}
	}
	for name, uses := range map[string]store.Uses{"none": nil, "others": {"timeout"}} {
		if got, err := db.timedTable(t, uses).NextDue(t.Context(), []string{"a"}, nil); err != nil || got.Next != nil || !got.Now.IsZero() {
			t.Errorf("using %s: %+v, %v", name, got, err)
		}
	}
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

// A row that is due, and that somebody is about to insert or holds, is one that waits; one that is
// due later is not.
func TestDueRowsWait(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table := db.timedTable(t, allTimes)
	look := func(want ...string) {
		t.Helper()
		got, err := table.Waiting(t.Context(), []string{"a", "b"}, nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("waiting: %v, %v; want %v", got, err, want)
		}
	}
	db.insertAt(t, "delayed", 1, 4_000_000_000, 0)
	look()
	inserting := db.begin(t, "INSERT INTO jobs (target, time_created, status, run_at) VALUES ('b', 1, 'delayed', 5)")
	look("b")
	must.Do(t, inserting.Rollback())
	id := db.insertAt(t, "delayed", 1, 5, 0)
	holder := db.begin(t, fmt.Sprint("UPDATE jobs SET status = 'accepted' WHERE id = ", id))
	look("a")
	err := table.Claim(t.Context(), map[string]int{"a": 5}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		return nil, fmt.Errorf("the claim has %v", rows)
	})
	if err := errors.Join(err, holder.Rollback()); err != nil {
		t.Error(err)
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

// withTimes is the usual table with the optional columns.
func withTimes() string {
	return replaced(
		"'ignored')", "'ignored','delayed')",
		"  PRIMARY KEY", "  `run_at` int UNSIGNED NOT NULL DEFAULT 0,\n  `planned_at` int UNSIGNED NOT NULL DEFAULT 0,\n"+
			"  `schedule` varchar(64) DEFAULT NULL,\n  `time_zone` varchar(64) DEFAULT NULL,\n  `attempts` smallint UNSIGNED NOT NULL DEFAULT 0,\n"+
			"  `max_attempts` smallint UNSIGNED DEFAULT NULL,\n  `timeout` int UNSIGNED DEFAULT NULL,\n  `priority` tinyint NOT NULL DEFAULT 0,\n"+
			"  `unique_key` varchar(64) DEFAULT NULL UNIQUE,\n  PRIMARY KEY",
		"\n) ENGINE", ",\n  KEY `due_idx` (`status`, `target`, `run_at`),\n  KEY `priority_idx` (`status`, `target`, `priority` DESC, `id`)\n) ENGINE",
	)
}

func TestConformanceOfTimes(t *testing.T) {
	t.Parallel()
	storetest.RunTimes(t, func(t *testing.T) storetest.Fixture {
		db := newDatabase(t, withTimes())
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
				if diff := cmp.Diff(map[string]int64{"a": 3_999_999_998}, got.Next); diff != "" {
					t.Error(diff)
				}
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
