package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
)

// What becomes of a row that differs, by what it says and what the journal says.
func TestReapply(t *testing.T) {
	t.Parallel()
	again := func(w *world) { // claimed twice: the row bears the earlier claim
		w.happen(1, long, claim(tokenTwo), journal.Released{})
		w.ran(1)
	}
	cases := []reapplied{
		{"done, and the row waits", (*world).ranOne, store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, "applied", doneRow},
		{"done, and the row is accepted", (*world).ranOne, store.Seen{Row: journal.Row{Status: journal.RowAccepted, Owner: tokenOne}}, "applied", doneRow},
		{"done, and the row bears an earlier claim", again, store.Seen{Row: journal.Row{Status: journal.RowRunning, Owner: tokenTwo}}, "applied", doneRow},
		{
			"running, and the row waits", func(w *world) { w.happen(1, long, claim(tokenOne), journal.Running{Attempt: 1}) },
			store.Seen{Row: journal.Row{Status: journal.RowWaiting}},
			"applied", `running "@aaaa00001" 1700000000 0 ""`,
		},
		{
			"accepted, and the row waits", func(w *world) { w.happen(1, long, claim(tokenOne)) },
			store.Seen{Row: journal.Row{Status: journal.RowWaiting}},
			"applied", `accepted "@aaaa00001" 0 0 ""`,
		},
		{
			"released, and the row bears the claim", func(w *world) { w.happen(1, long, claim(tokenOne), journal.Released{}) },
			store.Seen{Row: journal.Row{Status: journal.RowAccepted, Owner: tokenOne}},
			"applied", `waiting "" 0 0 ""`,
		},
		{
			"ignored, and the row waits", func(w *world) { w.happen(1, long, journal.Ignored{Reason: "x"}) },
			store.Seen{Row: journal.Row{Status: journal.RowManual}},
			"applied", `ignored "" 0 0 ""`,
		},
		{
			"another worker's row", (*world).ranOne,
			store.Seen{Row: journal.Row{Status: journal.RowRunning, Owner: "@zzzz00001"}},
			"refused: it bears '@zzzz00001', which is no claim of this journal", "",
		},
		{
			"another job with the same id", (*world).ranOne,
			store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: second + 1},
			"refused: " + store.AnotherJob, "",
		},
		{
			"set back by hand", (*world).ranOne,
			store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Finished: second},
			"refused: it was set back by hand after the journal's claim, or retried: time_finished says so", "",
		},
	}
	cases = append(append(cases, comingBack()...), leftRetried()...)
	for _, c := range cases {
		for _, dry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dry run %t", c.name, dry), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				c.happens(w)
				row := c.row
				row.Job, row.Target = 1, "a"
				w.table.Rows[1] = &row
				if row.Plan != nil {
					plan := *row.Plan
					row.Plan, w.table.Uses = &plan, store.TimeColumns()
				}
				before := fmt.Sprintf("%s %q %d %d %q", row.Status, row.Owner, row.Started, row.Finished, row.Result)
				did, err := w.reapply(&reconcile.Reapply{DryRun: dry, Retried: w.retried})
				want, after := c.want, c.after
				if dry && want == "applied" {
					want, after = "would apply", ""
				}
				if after == "" {
					after = before
				}
				if err != nil || did[1] != want {
					t.Errorf("%q, %v; want %q", did[1], err, want)
				}
				w.expect(1, after)
				if wrote := w.table.Applies + w.table.Claims; (dry || c.after == "") && wrote+len(w.noted) > 0 {
					t.Errorf("%d updates, journalled %v; want none of either", wrote, w.noted)
				}
			})
		}
	}
}

// leftRetried are the cases of TestReapply of rows that were retried: none is ever brought back to the end that it had
// before, whichever worker's journal knows that end, and whichever worker has retried it.
func leftRetried() []reapplied {
	retried := journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "ok", Finished: second, By: "me"}
	byUs := func(w *world) { w.ran(1); w.happen(1, long, retried) }
	waits := store.Seen{Row: journal.Row{Status: journal.RowWaiting}}
	setBack := waits
	setBack.Finished = second
	elsewhere := func(finished int64) func(w *world) {
		return func(w *world) { w.ran(1); w.retried = map[int64]int64{1: finished} }
	}
	return []reapplied{
		{name: "retried by this worker", happens: byUs, row: setBack},
		{name: "retried by this worker, and the backup is from before the end", happens: byUs, row: waits},
		{
			name: "retried by this worker, and the backup is from while it ran", happens: byUs,
			row:  store.Seen{Row: journal.Row{Status: journal.RowRunning, Owner: tokenOne}},
			want: "applied", after: `waiting "" 0 0 ""`,
		},
		{
			name: "retried by this worker, and the backup is from between", happens: byUs,
			row:  store.Seen{Row: journal.Row{Status: journal.RowDone}, Finished: second, Result: "ok"},
			want: "refused: it is as it was before it was retried: retry it once more",
		},
		{
			name: "retried by another worker, and the backup is from before the end", happens: elsewhere(second), row: waits,
			want: "refused: another worker's journal says that it was retried since",
		},
		{
			name: "retried by another worker, and it ran here since", happens: elsewhere(second - 1), row: waits,
			want: "applied", after: doneRow,
		},
		{
			name: "retried, which was not committed", row: waits,
			happens: func(w *world) { byUs(w); w.happen(1, long, journal.Conflict{Wanted: journal.WantedRetried}) },
			want:    "applied", after: doneRow,
		},
	}
}

// ranOne has job 1 run.
func (w *world) ranOne() { w.ran(1) }

// waiting puts rows that wait into the table, as a backup has them.
func (w *world) waiting(ids ...int64) {
	for _, id := range ids {
		w.table.Put(id, journal.RowWaiting, "")
	}
}

func TestReapplyIsJournalledBeforeAndAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id := range int64(3) {
		w.ran(id + 1)
	}
	w.waiting(1, 2)
	w.table.onClaim = func([]int64) error {
		if len(w.noted) != 1 {
			t.Errorf("rows are changed, and journalled is %v", w.noted)
		}
		return nil
	}
	did, err := w.reapply(&reconcile.Reapply{})
	want := map[int64]string{1: "applied", 2: "applied", 3: "refused: there is no such row, and rows are never inserted"}
	if diff := cmp.Diff(want, did); err != nil || diff != "" {
		t.Errorf("%v, done (-want +got):\n%s", err, diff)
	}
	begun := journal.Reapplied{From: 1, To: 12, By: "somebody"}
	ended := begun
	ended.Rows, ended.Refused, ended.Ended = 2, 1, true
	check.Diff(t, []journal.Reapplied{begun, ended}, w.noted, "journalled")
	if did, err := w.reapply(&reconcile.Reapply{Since: long.Add(time.Second)}); err != nil || len(did) > 0 || len(w.noted) != 2 {
		t.Errorf("nothing happened since, and %v was done (%v)", did, err)
	}
}

// The disk is full: nothing is changed that is not journalled.
func TestReapplyThatCannotBeJournalledChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ran(1)
	w.waiting(1)
	full := errors.New("no space left")
	if _, err := w.reapplyNoting(&reconcile.Reapply{}, func(journal.Reapplied) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want the journal's error", err)
	}
	w.expect(1, `waiting "" 0 0 ""`)
}

// Of a lost worker's journal only what came to its end is reapplied: nobody would end the rest.
func TestReapplyOfALostWorkersJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happen(0, long, journal.Opened{Name: "node-2"})
	w.ran(1)
	w.happen(2, long, claim(tokenTwo), journal.Running{Attempt: 1})
	w.waiting(1, 2)
	did, err := w.reapply(&reconcile.Reapply{Config: reconcile.Config{Journal: w.history, Table: w.table}})
	want := map[int64]string{1: "applied", 2: "refused: it was under way when that journal ends: whether it ran is not known"}
	if diff := cmp.Diff(want, did); err != nil || diff != "" {
		t.Errorf("%v, done (-want +got):\n%s", err, diff)
	}
	w.expect(2, `waiting "" 0 0 ""`)
	if len(w.noted) != 2 || w.noted[0].Journal != "node-2" || w.noted[0].Hash == "" {
		t.Errorf("journalled %+v", w.noted)
	}
}

// Ends that lie far apart are read one by one, others in one go: the rows are the same.
func TestReapplyOfEndsNearbyAndFarApart(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]int{"nearby": 0, "far apart": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for id := range int64(2) {
				w.ran(id + 1)
				for range between {
					w.happen(0, long, journal.Paused{Targets: []string{"a"}})
				}
			}
			w.waiting(1, 2)
			said := 0
			w.table.OnChange = func(c store.Change) { said += len(c.Done.Stdout.Kept) }
			if did, err := w.reapply(&reconcile.Reapply{}); err != nil || len(did) != 2 || said != 8 {
				t.Errorf("%v with %d bytes of output, %v; want both ends with theirs", did, said, err)
			}
		})
	}
}

// A claim that was given up while rows are brought back is none any more.
func TestReapplyLeavesAClaimThatWasGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happen(1, long, claim(tokenOne))
	w.waiting(1)
	w.table.onClaim = func([]int64) error {
		w.happen(1, long, journal.Released{})
		return nil
	}
	if did, err := w.reapply(&reconcile.Reapply{}); err != nil || len(did) > 0 {
		t.Errorf("%v, %v; want nothing: the row is as the journal says by now", did, err)
	}
	w.expect(1, `waiting "" 0 0 ""`)
}

// One row that is refused, held or poisoned leaves the others alone.
func TestReapplyFindsTheRowAtFault(t *testing.T) {
	t.Parallel()
	const held = "refused: it can't be changed now; reapply again later: "
	cases := []struct {
		name  string
		fault func(*world)
		want  string
	}{
		{"locked when it is claimed", func(w *world) { w.table.Locked[3] = true }, held + "somebody else holds a lock on it"},
		{"refused when it is claimed", func(w *world) {
			w.table.onClaim = func(ids []int64) error {
				if !slices.Contains(ids, 3) {
					return nil
				}
				return &store.RefusedRows{Rows: map[int64]string{3: "CHECK fails"}, Err: errors.New("CHECK fails")}
			}
		}, held + "the table refuses the update: CHECK fails"},
		{"refused when it is claimed, nobody knows which", func(w *world) {
			w.table.onClaim = func(ids []int64) error {
				for _, id := range ids {
					if id == 3 {
						return errors.New("a trigger raised 1644")
					}
				}
				return nil
			}
		}, held + "a trigger raised 1644"},
		{"refused when it ends", func(w *world) { w.table.Refused[3] = true }, "refused: the server refuses it in every form: CHECK constraint fails"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			want := map[int64]string{}
			for id := int64(1); id <= 5; id++ {
				w.ran(id)
				w.waiting(id)
				want[id] = "applied"
			}
			want[3] = c.want
			c.fault(w)
			did, err := w.reapply(&reconcile.Reapply{})
			if diff := cmp.Diff(want, did); err != nil || diff != "" {
				t.Errorf("%v, done (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReapplyEndsWhereTheTableIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ran(1)
	w.waiting(1)
	w.table.onClaim = func([]int64) error { return &store.Unreachable{Op: "claim", Err: errors.New("gone")} }
	_, err := w.reapply(&reconcile.Reapply{})
	var failed *reconcile.TableError
	if !errors.As(err, &failed) || failed.Doing != "reapplying to the table" {
		t.Errorf("got %v, want the table's error", err)
	}
	if len(w.noted) != 2 || !w.noted[1].Ended || w.noted[1].Rows != 0 {
		t.Errorf("journalled %+v; want a beginning and an end without rows", w.noted)
	}
}

var _ reconcile.Table = (*storetest.Memory)(nil)
