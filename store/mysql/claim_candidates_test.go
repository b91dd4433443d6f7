package mysql_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
)

// clockTable is a table whose clock stands still until it is moved.
func clockTable(t *testing.T, db *database, uses store.Uses) (table *mysql.Table, clock *time.Time) {
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

// fill inserts rows of target a that wait, and gives their ids.
func (db *database) fill(t *testing.T, rows int) (ids []int64) {
	t.Helper()
	for range rows {
		ids = append(ids, int64(len(ids)+1))
	}
	for some := range slices.Chunk(ids, 1000) {
		db.exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES "+
			strings.TrimSuffix(strings.Repeat("(NULL, 'a', 1, 'waiting'), ", len(some)), ", "))
	}
	return ids
}

const setBack = "UPDATE jobs SET status = 'waiting', sig = NULL WHERE id = ?"

// A claim that follows a full one takes rows of a list, and none that began to wait before them since. Such a
// row comes up when the list is too old or has too few rows.
func TestAClaimTakesCandidates(t *testing.T) {
	t.Parallel()
	for name, uses := range map[string]store.Uses{"no columns about time": nil, "run_at": {"run_at"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, timedDDL())
			table, clock := clockTable(t, db, uses)
			ids := db.fill(t, 14)
			two := map[string]int{"a": 2}
			claims(t, table, two, accept, ids[0], ids[1])
			claims(t, table, two, accept, ids[2], ids[3])
			db.exec(t, setBack, ids[0])
			*clock = clock.Add(mysql.ListAge - 1)
			claims(t, table, two, accept, ids[4], ids[5])
			*clock = clock.Add(1)
			claims(t, table, two, accept, ids[0], ids[6])
			db.exec(t, setBack, ids[0])
			claims(t, table, two, accept, ids[7], ids[8])
			claims(t, table, map[string]int{"a": 6}, accept, ids[0], ids[9], ids[10], ids[11], ids[12], ids[13])
		})
	}
}

// Candidates that another worker has, or had, are passed by; where too few are left, the claim looks from the front.
func TestCandidatesThatOthersTookArePassedBy(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, _ := clockTable(t, db, nil)
	ids := db.fill(t, 40)
	two := map[string]int{"a": 2}
	claims(t, table, two, accept, ids[0], ids[1])
	claims(t, table, two, accept, ids[2], ids[3])
	db.begin(t, "SELECT * FROM jobs WHERE id = 5 FOR UPDATE")
	db.exec(t, "UPDATE jobs SET status = 'accepted' WHERE id = ?", ids[6])
	claims(t, table, two, accept, ids[5], ids[7])
	db.exec(t, "UPDATE jobs SET status = 'accepted' WHERE id > ? AND id < ?", ids[7], ids[38])
	db.exec(t, setBack, ids[0])
	claims(t, table, map[string]int{"a": 3}, accept, ids[0], ids[38], ids[39])
}

// Regression: a claim from a list locked a row before its entry in the index of the status, and those who look for
// rows by their status the other way round: of a claim and an application's UPDATE one was the victim of a deadlock.
func TestAClaimLocksAsThoseDoWhoLookByStatus(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, _ := clockTable(t, db, nil)
	ids := db.fill(t, 40)
	two := map[string]int{"a": 2}
	claims(t, table, two, accept, ids[0], ids[1])
	update, other := make(chan error, 1), db.table(t).DB()
	claims(t, table, two, func(rows []journal.Row) ([]journal.Event, error) {
		go func() {
			_, err := other.ExecContext(t.Context(), "UPDATE jobs FORCE INDEX (status_target_idx) SET target = 'b' WHERE status = 'waiting' AND target = 'a' AND id = ?", ids[2])
			update <- err
		}()
		db.awaitWaiter(t)
		return accept(rows)
	}, ids[2], ids[3])
	check.Do(t, <-update)
	db.expect(t, ids[2], "target", "a")
}

// Regression: rows that somebody holds who does not claim counted as taken by others. A lone worker took rows far
// behind, and came back to the first ones long after they were free.
func TestRowsThatSomebodyHoldsAreTakenWhenTheyAreFree(t *testing.T) {
	t.Parallel()
	const held = 30
	db := newDatabase(t, timedDDL())
	table, clock := clockTable(t, db, nil)
	ids := db.fill(t, 200)
	one := map[string]int{"a": 1}
	claims(t, table, one, accept, ids[0])
	holder := db.begin(t, "UPDATE jobs SET time_created = 2 WHERE id BETWEEN 2 AND 30", "UPDATE jobs SET time_created = 2 WHERE id = 31")
	next := held + 1
	for range 40 {
		claims(t, table, one, accept, ids[next])
		*clock = clock.Add(mysql.ListAge / 10)
		next++
	}
	check.Do(t, holder.Rollback())
	claims(t, table, one, accept, ids[1])
	claims(t, table, one, accept, ids[2])
}

// Regression: a worker that claims rarely kept its place behind the first rows for many claims.
func TestWhoClaimsRarelyLooksFromTheFront(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, clock := clockTable(t, db, nil)
	ids := db.fill(t, 600)
	three := map[string]int{"a": 3}
	claims(t, table, three, accept, ids[0], ids[1], ids[2])
	claims(t, table, three, accept, ids[3], ids[4], ids[5])
	for at := 6; at < 500; at *= 2 { // others are faster
		db.exec(t, "UPDATE jobs SET status = 'accepted' WHERE id <= ?", ids[at])
		check.Do(t, table.Claim(t.Context(), three, nil, accept))
	}
	db.exec(t, setBack, ids[0])
	*clock = clock.Add(mysql.ListAge)
	claims(t, table, map[string]int{"a": 1}, accept, ids[0])
}

// A list of negative ids is in order, too.
func TestCandidatesWithNegativeIDs(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, replaced("int(10) UNSIGNED NOT NULL AUTO_INCREMENT", "bigint NOT NULL"))
	table := db.timedTable(t, nil)
	for id := -40; id < 0; id++ {
		db.exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (?, 'a', 1, 'waiting')", id)
	}
	for id := int64(-40); id < 0; id += 2 {
		claims(t, table, map[string]int{"a": 2}, accept, id, id+1)
	}
}

// Many workers claim rows of one target at once: each row goes to one of them, and none is left.
func TestManyClaimersShareATarget(t *testing.T) {
	t.Parallel()
	const workers, rows = 12, 1500
	db := newDatabase(t, timedDDL())
	db.fill(t, rows)
	var mu sync.Mutex
	claimed := map[int64]int{}
	var group sync.WaitGroup
	for range workers {
		table := db.timedTable(t, nil)
		group.Go(func() {
			for got := 1; got > 0; {
				got = 0
				check.Do(t, table.Claim(t.Context(), map[string]int{"a": 3}, nil, func(rows []journal.Row) ([]journal.Event, error) {
					got = len(rows)
					mu.Lock()
					defer mu.Unlock()
					for _, row := range rows {
						claimed[row.Job]++
					}
					return accept(rows)
				}))
			}
		})
	}
	group.Wait()
	for id, times := range claimed {
		if times > 1 {
			t.Errorf("row %d was claimed %d times", id, times)
		}
	}
	if len(claimed) != rows {
		t.Errorf("%d of %d rows were claimed", len(claimed), rows)
	}
}

// Where a row that goes before others may have any id, each claim looks from the front.
func TestClaimsByPriorityLookFromTheFront(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, _ := clockTable(t, db, store.Uses{"priority"})
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
			table, _ := clockTable(t, db, nil)
			ids := db.fill(t, 8)
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

// Regression: of the lists that begin anywhere among the first rows, nearly none had the first one of all, which
// waited for long while others behind it went.
func TestListsHaveTheFirstRowAsOftenAsOthers(t *testing.T) {
	t.Parallel()
	const aside, limit, lists = 200, 32, 100_000
	var seen [aside]int // how many lists have the row of that place
	for range lists {
		first := mysql.PlaceOf(aside, limit)
		if first < 0 || first > aside {
			t.Fatalf("a list begins behind %d of at most %d rows", first, aside)
		}
		for at := first; at < min(first+limit, aside); at++ {
			seen[at]++
		}
	}
	const least = lists * limit / (aside + limit)
	for at, n := range seen {
		if n < least*9/10 {
			t.Errorf("row %d is in %d lists, want about %d at least", at, n, least)
		}
	}
	check.Equal(t, mysql.PlaceOf(0, limit), 0, "alone, a list begins behind")
}

// A list is read in the order of the index, and its rows are locked by its entries: neither meets another row.
func TestCandidatesAreReadByTheirIndexes(t *testing.T) {
	t.Parallel()
	for name, uses := range map[string]store.Uses{"no columns about time": nil, "run_at": {"run_at"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, timedDDL())
			table, _ := clockTable(t, db, uses)
			db.fill(t, 32_000)
			db.exec(t, "ANALYZE TABLE jobs")
			list, lock := table.Candidates("a", 100, []int64{1, 1000, 16_000, 31_000})
			_, list, _ = strings.Cut(list, "; ")
			if plan := explain(t, db.app, list, "a", 100, 50); !strings.Contains(plan, "key=status_target_idx") || strings.Contains(plan, "filesort") {
				t.Errorf("%s\nis done by %s", list, plan)
			}
			if plan := explain(t, db.app, lock, "a", 100); !strings.Contains(plan, "type=range") || !strings.Contains(plan, "key=status_target_idx") || !strings.Contains(plan, "rows=4") {
				t.Errorf("%s\nis done by %s", lock, plan)
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
			table, _ := clockTable(t, db, nil)
			db.fill(t, 8000)
			db.exec(t, "ANALYZE TABLE jobs")
			claims(t, table, map[string]int{"a": 2}, accept, 1, 2)
			query, _ := table.Candidates("a", 6, nil)
			_, query, _ = strings.Cut(query, "; ")
			_, rest, given := strings.Cut(query, " FORCE INDEX")
			rest, _, _ = strings.Cut(rest, " WHERE")
			if given {
				rest = " FORCE INDEX" + rest
			}
			if rest != c.hint {
				t.Errorf("it names%s, want%s", cmp.Or(rest, " none"), cmp.Or(c.hint, " none"))
			}
			if c.hint == "" {
				return
			}
			if plan := explain(t, db.app, query, "a", 6, 0); strings.Contains(plan, "filesort") {
				t.Errorf("%s\nis done by %s", query, plan)
			}
		})
	}
}
