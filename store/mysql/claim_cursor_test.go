package mysql_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
)

// cursorTable is a table whose clock stands still until it is moved.
func cursorTable(t *testing.T, db *database, uses store.Uses) (table *mysql.Table, clock *time.Time) {
	t.Helper()
	clock = new(time.Unix(1_000_000, 0))
	table = db.timedTable(t, uses)
	table.ClaimClock(func() time.Time { return *clock })
	return table, clock
}

// claims claims up to room rows of each target, and checks which they are.
func claims(t *testing.T, table store.Table, room map[string]int, decide store.Decide, want ...int64) {
	t.Helper()
	var got []int64
	err := table.Claim(t.Context(), room, nil, func(rows []journal.Row) ([]journal.Event, error) {
		got = jobs(rows)
		slices.Sort(got)
		return decide(rows)
	})
	check.Do(t, err)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("claimed are %v, want %v", got, want)
	}
}

const setBack = "UPDATE jobs SET status = 'waiting', sig = NULL WHERE id = ?"

// A claim goes on behind the last row of a full one: the index entries of the rows before it may
// still be there. Half a second after a look from the front the next one follows.
func TestAClaimGoesOnBehindAFullOne(t *testing.T) {
	t.Parallel()
	for name, uses := range map[string]store.Uses{"no columns about time": nil, "run_at": {"run_at"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, timedDDL())
			table, clock := cursorTable(t, db, uses)
			var ids []int64
			for range 14 {
				ids = append(ids, db.insert(t, "a", "waiting", ""))
			}
			two := map[string]int{"a": 2}
			claims(t, table, two, accept, ids[0], ids[1])
			db.exec(t, setBack, ids[0])
			claims(t, table, two, accept, ids[2], ids[3])
			*clock = clock.Add(mysql.FrontInterval - 1)
			claims(t, table, two, accept, ids[4], ids[5])
			*clock = clock.Add(1) // the claims between did not look from the front
			claims(t, table, two, accept, ids[0], ids[6])
			claims(t, table, two, accept, ids[7], ids[8])
			db.exec(t, setBack, ids[0]) // fewer are left behind the last one than there is room for
			claims(t, table, map[string]int{"a": 6}, accept, ids[0], ids[9], ids[10], ids[11], ids[12], ids[13])
		})
	}
}

// Where a row that goes before others may have any id, each claim looks from the front.
func TestClaimsByPriorityLookFromTheFront(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, _ := cursorTable(t, db, store.Uses{"priority"})
	low := db.insertAt(t, "waiting", 1, 0, 0)
	claims(t, table, map[string]int{"a": 1}, accept, low)
	db.exec(t, setBack, low)
	db.insertAt(t, "waiting", 1, 0, -1)
	claims(t, table, map[string]int{"a": 1}, accept, low)
}

// A claim that left rows as they were, or failed, is none behind which another goes on.
func TestNothingGoesOnBehindRowsThatStillWait(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]store.Decide{
		"none decided": func([]journal.Row) ([]journal.Event, error) { return nil, nil },
		"one decided":  func(rows []journal.Row) ([]journal.Event, error) { return accept(rows[1:]) },
		"failed":       func([]journal.Row) ([]journal.Event, error) { return nil, errors.New("the disk is full") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, timedDDL())
			table, _ := cursorTable(t, db, nil)
			var ids []int64
			for range 8 {
				ids = append(ids, db.insert(t, "a", "waiting", ""))
			}
			two := map[string]int{"a": 2}
			claims(t, table, two, accept, ids[0], ids[1])
			err := table.Claim(t.Context(), two, nil, func(rows []journal.Row) ([]journal.Event, error) {
				if got := jobs(rows); !slices.Equal(got, ids[2:4]) {
					t.Errorf("claimed are %v, want %v", got, ids[2:4])
				}
				return decide(rows)
			})
			if (err != nil) != (name == "failed") {
				t.Error(err)
			}
			db.exec(t, setBack, ids[0])
			claims(t, table, two, accept, ids[0], ids[2])
		})
	}
}

// Regression: where many rows waited, MariaDB looked for those behind an id from the front, past the
// entries of all rows that had gone: it took the index for its first two columns only.
func TestAClaimThatGoesOnReadsNothingBeforeItsPlace(t *testing.T) {
	t.Parallel()
	for name, uses := range map[string]store.Uses{"no columns about time": nil, "run_at": {"run_at"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, timedDDL())
			table, _ := cursorTable(t, db, uses)
			db.exec(t, "INSERT INTO jobs (target, time_created, status) SELECT 'a', 1, 'waiting' FROM ("+
				"WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 1000) SELECT id FROM n) AS thousand")
			for range 5 {
				db.exec(t, "INSERT INTO jobs (target, time_created, status) SELECT target, time_created, status FROM jobs")
			}
			db.exec(t, "ANALYZE TABLE jobs")
			for _, last := range []int64{1000, 16_000, 31_000} {
				query, args := table.BehindCursor("a", 100, last)
				if plan := explain(t, db.app, query, args...); !strings.Contains(plan, "type=range") || !strings.Contains(plan, "key=status_target_idx") {
					t.Errorf("%s\nis done by %s", query, plan)
				}
			}
		})
	}
}

// Regression: an index that has the beginning of a target only, or one of a table with partitions,
// has no order of ids behind it. Claims that named it read, locked and sorted all rows of the target:
// 0.4 s each with 300,000 of them.
func TestNoIndexIsNamedThatWouldMakeClaimsSort(t *testing.T) {
	t.Parallel()
	const usual = "KEY `status_target_idx` (`status`, `target`, `id`)"
	named := func(name string) string { return " FORCE INDEX (`" + name + "`)" }
	for name, c := range map[string]struct {
		table string
		hint  string // that claims give; "": none
	}{
		"usual":                             {replaced(), named("status_target_idx")},
		"without id":                        {replaced(usual, "KEY `k` (`status`, `target`)"), named("k")},
		"the other way round":               {replaced(usual, "KEY `k` (`target`, `status`)"), named("k")},
		"beginning of a target":             {replaced(usual, "KEY `k` (`status`, `target`(4))"), ""},
		"beginning first":                   {replaced(usual, "KEY `k` (`target`(7), `status`)"), ""},
		"beginning, with id":                {replaced(usual, "KEY `k` (`status`, `target`(4), `id`)"), named("k")},
		"beginning beside the usual":        {replaced(usual, usual+", KEY `a` (`status`, `target`(4))"), named("status_target_idx")},
		"beginning, with id, and the usual": {replaced(usual, usual+", KEY `a` (`status`, `target`(4), `id`)"), named("status_target_idx")},
		"beginning of a long text":          {replaced("`target` char(16)", "`target` text", usual, "KEY `k` (`status`, `target`(64))"), ""},
		"partitions":                        {replaced(usual, "KEY `k` (`status`, `target`)") + " PARTITION BY HASH (id) PARTITIONS 8", ""},
		"partitions, with id":               {replaced() + " PARTITION BY HASH (id) PARTITIONS 8", named("status_target_idx")},
		"partitions by time": {
			replaced(usual, "KEY `k` (`status`, `target`)", "PRIMARY KEY (`id`)", "PRIMARY KEY (`id`, `time_created`)") +
				" PARTITION BY RANGE (time_created) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE)", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, c.table)
			table, _ := cursorTable(t, db, nil)
			db.exec(t, "INSERT INTO jobs (target, time_created, status) SELECT 'a', 1, 'waiting' FROM ("+
				"WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 1000) SELECT id FROM n) AS thousand")
			for range 3 {
				db.exec(t, "INSERT INTO jobs (target, time_created, status) SELECT target, time_created, status FROM jobs")
			}
			db.exec(t, "ANALYZE TABLE jobs")
			claims(t, table, map[string]int{"a": 2}, accept, 1, 2)
			query, args := table.BehindCursor("a", 6, 1000)
			_, rest, given := strings.Cut(query, " FORCE INDEX")
			rest, _, _ = strings.Cut(rest, " WHERE")
			if given {
				rest = " FORCE INDEX" + rest
			}
			if rest != c.hint {
				t.Errorf("it names%s, want%s", cmp.Or(rest, " none"), cmp.Or(c.hint, " none"))
			}
			if plan := explain(t, db.app, query, args...); c.hint != "" && strings.Contains(plan, "filesort") {
				t.Errorf("%s\nis done by %s", query, plan)
			}
		})
	}
}
