package reconcile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
)

// The plans that a row of tests had: at the claim of its first run, and of its second.
var firstRun, secondRun = journal.Plan{RunAt: 100, PlannedAt: 100}, journal.Plan{RunAt: 200, PlannedAt: 200}

// delayedClaim is a claim of a row that waited for a time.
func delayedClaim(token string, plan journal.Plan) journal.Payload {
	return journal.Accepted{Target: "a", Token: token, From: journal.RowDelayed, Plan: &plan, PlannedAt: plan.PlannedAt}
}

// ranTwice adds a job that recurs: it ran twice, and runs next at 300.
func (w *world) ranTwice() {
	end := func(at int64) journal.Payload {
		return journal.Done{Result: "ok", Again: &journal.Again{RunAt: at, PlannedAt: at, Why: journal.AgainSchedule}}
	}
	w.happen(1, long.Add(-50e9), delayedClaim(tokenTwo, firstRun), journal.Running{Attempt: 1}, end(200))
	w.happen(1, long, delayedClaim(tokenOne, secondRun), journal.Running{Attempt: 1}, end(300))
}

// delayedRow is a row that waits for a time, and has ended at one.
func delayedRow(plan journal.Plan, finished int64, result string) store.Seen {
	return store.Seen{Row: journal.Row{Job: 1, Target: "a", Status: journal.RowDelayed, Plan: &plan}, Finished: finished, Result: result}
}

const wentOn = "refused: it went on elsewhere since: it waits for another run than the journal knows"

// reapplied is a case of TestReapply.
type reapplied struct {
	name    string
	happens func(*world)
	row     store.Seen
	want    string // what was done
	after   string // "": as it was
}

// comingBack are the cases of TestReapply of rows that come back.
func comingBack() []reapplied {
	const brought = `delayed "" 1700000000 1700000000 "ok"`
	never := delayedRow(secondRun, 0, "")
	never.Plan = nil
	running := delayedRow(secondRun, second-50, "ok")
	running.Status, running.Owner = journal.RowRunning, tokenOne
	earlier := delayedRow(firstRun, 0, "")
	earlier.Status, earlier.Owner = journal.RowAccepted, tokenTwo
	given := func(w *world) {
		w.happen(1, long, delayedClaim(tokenOne, secondRun), journal.Released{From: journal.RowDelayed, Plan: &secondRun})
	}
	return []reapplied{
		{"comes back, and the row waits for the run that ended", (*world).ranTwice, delayedRow(secondRun, second-50, "ok"), "applied", brought},
		{"comes back, and the row waits for an earlier run", (*world).ranTwice, delayedRow(firstRun, 0, ""), "applied", brought},
		{"comes back, and the row bears its claim", (*world).ranTwice, running, "applied", brought},
		{"comes back, and the row bears an earlier claim", (*world).ranTwice, earlier, "applied", brought},
		{"comes back, and the row waits for somebody else's run", (*world).ranTwice, delayedRow(journal.Plan{RunAt: 150, PlannedAt: 100, Attempts: 1}, second-99, "fail"), wentOn, ""},
		{"comes back, and nothing of time is used", (*world).ranTwice, never, "refused: it is delayed, and no columns of such rows are used", ""},
		{"given back, and the row bears the claim", given, running, "applied", `delayed "" 0 1699999950 "ok"`},
		{
			"ignored, and the row waits for a time", func(w *world) { w.happen(1, long, journal.Ignored{Reason: "x"}) },
			delayedRow(firstRun, second-1, "ok"), "applied", `ignored "" 0 1699999999 "ok"`,
		},
		{
			"ignored, and the row has run since", func(w *world) { w.happen(1, long, journal.Ignored{Reason: "x"}) },
			delayedRow(firstRun, second+1, "ok"), "refused: it was set back by hand after the journal's claim, or retried: time_finished says so", "",
		},
	}
}

// What is brought back waits for the time that the journal has, planned anew as it may be.
func TestReapplyBringsTheTimeBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(*world)
		want    journal.Plan
	}{
		"as its end said": {func(*world) {}, journal.Plan{RunAt: 300, PlannedAt: 300}},
		"as was planned anew": {func(w *world) {
			w.happen(1, long, journal.Replanned{Token: tokenOne, Again: &journal.Again{RunAt: 400, PlannedAt: 400}})
		}, journal.Plan{RunAt: 400, PlannedAt: 400}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ranTwice()
			c.happens(w)
			row := delayedRow(firstRun, 0, "")
			w.table.Uses, w.table.Rows[1] = store.TimeColumns(), &row
			if did, err := w.reapply(&reconcile.Reapply{}); err != nil || did[1] != "applied" {
				t.Fatalf("%v, %v", did, err)
			}
			if diff := cmp.Diff(&c.want, w.table.Rows[1].Plan); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A row that went on elsewhere is as it should be; one that is behind is not.
func TestDiffOfRowsThatComeBack(t *testing.T) {
	t.Parallel()
	third := journal.Plan{RunAt: 300, PlannedAt: 300}
	claimed := delayedRow(third, second, "ok")
	claimed.Status, claimed.Owner = journal.RowAccepted, "@zzzz00001"
	ours := claimed
	ours.Owner = tokenTwo
	cancelled := delayedRow(third, second, "ok")
	cancelled.Status = journal.RowIgnored
	over := delayedRow(third, second+60, "fail")
	over.Status = journal.RowDone
	for name, c := range map[string]struct {
		row  store.Seen
		want reconcile.Cause
	}{
		"as it ended":                 {delayedRow(third, second, "ok"), ""},
		"planned for another time":    {delayedRow(journal.Plan{RunAt: 999}, second, "ok"), ""},
		"run elsewhere since":         {delayedRow(third, second+60, "fail"), ""},
		"done elsewhere since":        {over, ""},
		"claimed elsewhere":           {claimed, ""},
		"cancelled elsewhere":         {cancelled, ""},
		"it bears a claim of ours":    {ours, "changed"},
		"behind":                      {delayedRow(secondRun, second-50, "ok"), "changed"},
		"ended otherwise at the time": {delayedRow(third, second, "fail"), "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ranTwice()
			w.table.Uses, w.table.Rows[1] = store.TimeColumns(), &c.row
			var got reconcile.Cause
			err := reconcile.Diff(t.Context(), w.config(), func(d reconcile.Difference) error {
				got = d.Cause
				return nil
			})
			if err != nil || got != c.want {
				t.Errorf("the row differs as %q, want %q (%v)", got, c.want, err)
			}
		})
	}
	w := newWorld(t)
	w.happen(1, long, journal.Planned{Target: "a", To: journal.Again{RunAt: 7}})
	w.table.Put(1, journal.RowDone, "")
	if err := reconcile.Diff(t.Context(), w.config(), func(d reconcile.Difference) error {
		t.Errorf("told of a row that was only planned: %+v", d)
		return nil
	}); err != nil {
		t.Error(err)
	}
}
