package mysql_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/must"
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
	if err != nil {
		t.Error(err)
	}
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
		})
	}
}

// Each target has a place of its own; that one of them is short leaves the other where it is.
func TestTargetsGoOnByThemselves(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, _ := cursorTable(t, db, nil)
	var a, b []int64
	for range 6 {
		a = append(a, db.insert(t, "a", "waiting", ""))
		b = append(b, db.insert(t, "b", "waiting", ""))
	}
	db.exec(t, "UPDATE jobs SET status = 'done' WHERE id >= ? AND target = 'b'", b[3])
	both := map[string]int{"a": 2, "b": 2}
	claims(t, table, both, accept, a[0], b[0], a[1], b[1])
	db.exec(t, setBack, a[0])
	db.exec(t, setBack, b[0])
	claims(t, table, both, accept, b[0], a[2], a[3], b[2])
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

// A claim that somebody's lock kept from rows comes back short, and finds them when they are free.
func TestRowsThatWereLockedAreNotLeftBehind(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	table, _ := cursorTable(t, db, nil)
	var ids []int64
	for range 4 {
		ids = append(ids, db.insert(t, "a", "waiting", ""))
	}
	tx := must.Get(db.app.Begin())(t)
	defer func() { _ = tx.Rollback() }()
	must.Get(tx.Exec("SELECT id FROM jobs WHERE id = ? FOR UPDATE", ids[0]))(t)
	two := map[string]int{"a": 2}
	claims(t, table, two, accept, ids[1], ids[2])
	must.Do(t, tx.Rollback())
	claims(t, table, two, accept, ids[0], ids[3])
}

// Rows come to wait in any order, two workers claim them, and time goes by: a claim never leaves a
// row behind that it had room for, takes none twice, and passes by no row for longer than half a
// second while there are others.
func TestClaimsThatGoOnAgainstAModel(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, timedDDL())
	for name, uses := range map[string]store.Uses{"plain": nil, "run_at": {"run_at"}} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { modelClaimCursor(t, rt, db, uses) }) })
	}
}

func modelClaimCursor(t *testing.T, rt *rapid.T, db *database, uses store.Uses) {
	db.exec(t, "UPDATE jobs SET status = 'done'") // what the run before left
	clock := time.Unix(1_000_000, 0)
	tables := make([]*mysql.Table, 2)
	fronts := make([]time.Time, len(tables)) // when each has looked from the front at last, at least
	full := make([]bool, len(tables))        // whether its last claim took as many as it had room for
	last := make([]int64, len(tables))       // the last row of that
	for i := range tables {
		tables[i] = open(t, func() mysql.Config { c := db.config(); c.Uses = uses; return c }())
		confirmed(t, tables[i])
		defer tables[i].Close()
		tables[i].ClaimClock(func() time.Time { return clock })
	}
	waiting, taken := map[int64]time.Time{}, map[int64]bool{} // since when
	insert := func(*rapid.T) { waiting[db.insert(t, "a", "waiting", "")] = clock }
	rt.Repeat(map[string]func(*rapid.T){
		"insert": insert,
		"insert several": func(rt *rapid.T) {
			for range rapid.IntRange(2, 8).Draw(rt, "rows") {
				insert(rt)
			}
		},
		"set back": func(rt *rapid.T) {
			if len(taken) == 0 {
				rt.Skip("nothing is taken")
			}
			id := rapid.SampledFrom(slices.Sorted(maps.Keys(taken))).Draw(rt, "row")
			db.exec(t, setBack, id)
			delete(taken, id)
			waiting[id] = clock
		},
		"time goes by": func(rt *rapid.T) {
			clock = clock.Add(time.Duration(rapid.IntRange(1, 700).Draw(rt, "ms")) * time.Millisecond)
		},
		"claim": func(rt *rapid.T) {
			n, room := rapid.IntRange(0, len(tables)-1).Draw(rt, "worker"), rapid.IntRange(1, 5).Draw(rt, "room")
			var got []int64
			must.Do(rt, tables[n].Claim(t.Context(), map[string]int{"a": room}, nil, func(rows []journal.Row) ([]journal.Event, error) {
				got = jobs(rows)
				return accept(rows)
			}))
			first := slices.Sorted(maps.Keys(waiting))
			place, _ := slices.BinarySearch(first, last[n]+1)
			short := len(first)-place < room // behind the claim before: so it looked from the front, too
			if want := min(room, len(first)); len(got) != want {
				rt.Fatalf("claimed are %v, want %d of %v", got, want, first)
			}
			for _, id := range got {
				if _, ok := waiting[id]; !ok {
					rt.Fatalf("row %d was claimed, and did not wait", id)
				}
				delete(waiting, id)
				taken[id] = true
			}
			fromFront := fmt.Sprint(slices.Sorted(slices.Values(got))) == fmt.Sprint(first[:len(got)])
			if !fromFront && (!full[n] || clock.Sub(fronts[n]) >= mysql.FrontInterval) {
				rt.Fatalf("claimed are %v of %v, though nobody looked from the front for %v", got, first, clock.Sub(fronts[n]))
			}
			if !full[n] || short || clock.Sub(fronts[n]) >= mysql.FrontInterval {
				fronts[n] = clock
			}
			if full[n] = len(got) == room; full[n] {
				last[n] = slices.Max(got)
			}
		},
	})
}
