package mysql_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/dbserver"
)

// nullable is a table in which everything but the id may be NULL.
func nullable() string {
	return replaced(
		"`target` char(16) NOT NULL", "`target` char(16) DEFAULT NULL",
		"`time_created` int(10) UNSIGNED NOT NULL", "`time_created` int(10) UNSIGNED DEFAULT NULL",
		"`time_started` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_started` int(10) UNSIGNED DEFAULT NULL",
		"`time_finished` int(10) UNSIGNED NOT NULL DEFAULT 0", "`time_finished` int(10) UNSIGNED DEFAULT NULL",
		"NOT NULL DEFAULT 'waiting'", "DEFAULT NULL",
	)
}

// Regression: a NULL in time_started, time_finished or target, columns that are accepted at start,
// made the mirror repeat a Scan error for ever, after a restart too.
func TestNullInAnyColumn(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, nullable())
	const rows = 5
	db.exec(t, `INSERT INTO jobs (id, target, time_created, time_started, time_finished, status, result, sig) VALUES
		(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
		(2, 'a', NULL, NULL, NULL, 'done', NULL, NULL),
		(3, NULL, 1, 1, 1, 'waiting', 'ok', NULL),
		(4, 'a', 1, NULL, NULL, 'running', NULL, '@abcd01234'),
		(5, 'a', 7, NULL, NULL, 'accepted', NULL, '@abcd01234')`)
	changes := []store.Change{done(1, "x"), done(2, "x"), done(3, "x"), done(4, "x"), done(5, "x")}
	want := []store.Outcome{
		{Fate: store.Lost, Found: &journal.Row{Job: 1, Target: "null"}},
		{Fate: store.Lost, Found: &journal.Row{Job: 2, Target: "a", Status: "done"}},
		{Fate: store.Lost, Found: &journal.Row{Job: 3, Target: "null", Status: "waiting"}},
		{},
		{},
	}
	for _, name := range []string{"at first", "after a restart"} {
		table := db.table(t)
		got, err := table.Apply(t.Context(), changes)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: outcomes (-want +got):\n%s", name, diff)
		}
		seen, err := table.Look(t.Context(), []int64{1, 2, 3, 4, 5})
		if err != nil || len(seen) != rows {
			t.Fatalf("%s: Look: %v, %v", name, seen, err)
		}
		if diff := cmp.Diff(&store.Seen{Row: journal.Row{Job: 1, Target: "null"}}, seen[1]); diff != "" {
			t.Errorf("%s: the row that is NULL (-want +got):\n%s", name, diff)
		}
		if seen[5].Created != 7 || seen[5].Started != 0 {
			t.Errorf("%s: job 5: %+v", name, seen[5])
		}
	}
}

// time_created is the application's: whatever its type, a look at the row succeeds.
func TestTimeCreatedOfAnyType(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind, value string
		want        int64
	}{
		{"bigint UNSIGNED", "1700000000", 1700000000},
		{"bigint UNSIGNED", "18446744073709551615", math.MaxInt64},
		{"int", "-5", -5},
		{"decimal(20,6)", "1700000000.4", 1700000000},
		{"double", "1700000000.4", 1700000000},
		{"timestamp", "FROM_UNIXTIME(1700000000)", 1700000000},
		{"datetime", "'2023-11-14 22:13:20'", 0},
		{"date", "'2023-11-14'", 0},
		{"varchar(30)", "'yesterday'", 0},
		{"varchar(30)", "'1700000000'", 1700000000},
	}
	for _, c := range cases {
		t.Run(c.kind+" "+c.value, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, replaced("`time_created` int(10) UNSIGNED NOT NULL", "`time_created` "+c.kind+" NOT NULL"))
			db.exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (1, 'a', "+c.value+")")
			seen, err := db.table(t).Look(t.Context(), []int64{1})
			if err != nil || seen[1] == nil || seen[1].Created != c.want {
				t.Errorf("Look: %+v, %v; want it created at %d", seen[1], err, c.want)
			}
		})
	}
}

// Regression: behind a failover that lost rows, an update of a job was taken for applied at another
// job that had got its id again.
func TestRowCreatedAfterTheClaimIsAnotherJob(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	db.exec(t, "INSERT INTO jobs (id, target, time_created, status, result, time_finished) VALUES (1, 'a', 101, 'done', 'ok', 200)")
	change := done(1, "x")
	change.Finish = time.Unix(200, 0)
	for accepted, want := range map[int64]store.Fate{0: store.Applied, 100: store.Lost, 101: store.Applied} {
		if change.Accepted = time.Unix(accepted, 0); accepted == 0 {
			change.Accepted = time.Time{} // unknown
		}
		got, err := table.Apply(t.Context(), []store.Change{change})
		if err != nil || got[0].Fate != want || got[0].Newer != (want == store.Lost) {
			t.Errorf("claimed at %d: %+v, %v; want fate %d", accepted, got, err, want)
		}
	}
}
