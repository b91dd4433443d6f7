package mysql_test

import (
	"cmp"
	"strings"
	"testing"

	"jobd/store"
)

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

// The index that claims name may be dropped, or get another name, under way.
func TestClaimsGoOnWithoutTheirIndex(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"dropped": "ALTER TABLE jobs DROP INDEX status_target_idx",
		"renamed": "ALTER TABLE jobs RENAME INDEX status_target_idx TO another_idx",
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
			claims(t, table, two, accept, ids[:2]...)
			db.exec(t, change)
			for from := 2; from < len(ids); from += 2 {
				claims(t, table, two, accept, ids[from:from+2]...)
			}
			db.claimsNothing(t, table)
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
