package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
	"jobd/store/storetest/check"
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

const wentOn = "refused: it has moved on: it waits for a run that the journal does not know"

// reapplied is a case of TestReapply.
type reapplied struct {
	name    string
	happens func(*world)
	row     store.Seen
	want    string // what was done; "": nothing, it agrees
	after   string // "": as it was
}

const doneRow = `done "" 1700000000 1700000000 "ok"`

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
			check.Diff(t, &c.want, w.table.Rows[1].Plan, "plan")
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

func TestDiff(t *testing.T) {
	t.Parallel()
	now := time.Now()
	claimed := journal.Running{Attempt: 1, Claimed: true}
	cases := []struct {
		name    string
		happens func(*world)
		row     *store.Seen
		change  func(*mirror)
		want    reconcile.Cause // "": the row agrees
	}{
		{
			name: "done, and the row says so", happens: func(w *world) { w.ran(1) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowDone}, Finished: second, Result: "ok"},
		},
		{name: "done, and the row waits", happens: func(w *world) { w.ran(1) }, row: &store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, want: "changed"},
		{name: "done, and there is no row", happens: func(w *world) { w.ran(1) }, want: "changed"},
		{
			name: "done, and the row is done otherwise", happens: func(w *world) { w.ran(1) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowDone}, Finished: second + 1, Result: "ok"}, want: "changed",
		},
		{
			name: "done, which the mirror has not tried to write", happens: func(w *world) { w.ran(1) },
			row:    &store.Seen{Row: journal.Row{Status: journal.RowAccepted, Owner: tokenOne}},
			change: func(m *mirror) { m.tried = 2 }, want: "owed",
		},
		{
			name: "done, and the row is quarantined", happens: func(w *world) { w.ran(1) },
			row:    &store.Seen{Row: journal.Row{Status: journal.RowAccepted, Owner: tokenOne}},
			change: func(m *mirror) { m.owed = true }, want: "owed",
		},
		{
			name: "done, and the row was created later", happens: func(w *world) { w.ran(1) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: second + 1}, want: "other",
		},
		{
			name: "claimed just now", happens: func(w *world) { w.happen(1, now, claim(tokenOne)) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, want: "owed",
		},
		{
			name: "claimed and announced just now", happens: func(w *world) { w.happen(1, now, claim(tokenOne), claimed) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, want: "owed",
		},
		{
			name: "claimed long ago", happens: func(w *world) { w.happen(1, long, claim(tokenOne)) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, want: "changed",
		},
		{
			name: "ignored just now", happens: func(w *world) { w.happen(1, now, journal.Ignored{Reason: "x"}) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, want: "owed",
		},
		{
			name: "ignored long ago", happens: func(w *world) { w.happen(1, long, journal.Ignored{Reason: "x"}) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowManual}}, want: "changed",
		},
		{
			name: "released, and the row still bears the claim", happens: func(w *world) { w.happen(1, long, claim(tokenOne), journal.Released{}) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowAccepted, Owner: tokenOne}}, want: "changed",
		},
		{
			name: "released, and another worker has it", happens: func(w *world) { w.happen(1, long, claim(tokenOne), journal.Released{}) },
			row: &store.Seen{Row: journal.Row{Status: journal.RowAccepted, Owner: "@zzzz00001"}},
		},
		{
			name: "a row that the journal says is somebody else's", happens: func(w *world) {
				w.happen(1, long, claim(tokenOne), journal.Conflict{Wanted: journal.RowRunning, Token: tokenOne})
			},
			row: &store.Seen{Row: journal.Row{Status: journal.RowRunning, Owner: "@zzzz00001"}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.happens(w)
			if c.row != nil {
				c.row.Job, c.row.Target = 1, "a"
				w.table.Rows[1] = c.row
			}
			if c.change != nil {
				c.change(w.mirror)
			}
			var got reconcile.Cause
			err := reconcile.Diff(t.Context(), w.config(), func(d reconcile.Difference) error {
				got = d.Cause
				if d.Job.ID != 1 || !cmp.Equal(d.Row, c.row) || (d.Reason == store.AnotherJob) != (d.Cause == "other") {
					t.Errorf("difference %+v", d)
				}
				return nil
			})
			if err != nil || got != c.want {
				t.Errorf("the row differs as %q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

// A job that moves on while the rows are looked at is looked at again, and does not differ.
func TestDiffLooksAgainAtAJobThatMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happen(1, long, claim(tokenOne), journal.Running{Attempt: 1})
	w.table.Put(1, journal.RowRunning, tokenTwo).Started = second
	w.happen(2, long, claim(tokenOne)) // which stays
	w.table.Put(2, journal.RowAccepted, tokenOne)
	w.table.onLook = func(nth int) {
		if nth != 1 {
			return
		}
		w.happen(1, long, journal.Released{}, claim(tokenTwo), journal.Running{Attempt: 1})
	}
	err := reconcile.Diff(t.Context(), w.config(), func(d reconcile.Difference) error {
		t.Errorf("told of %+v", d)
		return nil
	})
	if err != nil || w.table.looks != 2 {
		t.Errorf("%d looks, %v; want one of all, and one of the job that moved", w.table.looks, err)
	}
}

func TestDiffTellsThatTheTableFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ran(1)
	w.table.Away = &store.Unreachable{Op: "connect", Err: errors.New("no route to host")}
	err := reconcile.Diff(t.Context(), w.config(), func(reconcile.Difference) error { return nil })
	var failed *reconcile.TableError
	if !errors.As(err, &failed) || !store.IsAway(err) || failed.Doing != "looking at rows for a client" {
		t.Errorf("got %v, want the table's error", err)
	}
}

// Which claims were given up unstarted: those go on where their rows come back.
func TestClaimed(t *testing.T) {
	t.Parallel()
	const token = "@aaaa11111"
	running, started := journal.Running{Attempt: 1, Runner: "r"}, journal.Started{Pid: 1, StartTime: 1, BootID: "b"}
	gone := func(wanted string) journal.Payload { return journal.Conflict{Token: token, Wanted: wanted} }
	for name, test := range map[string]struct {
		happened       []journal.Payload
		known, started bool
	}{
		"another's":                   {[]journal.Payload{claim("@aaaa22222"), running, started, done("ok")}, false, false},
		"given up":                    {[]journal.Payload{claim(token), journal.Released{Reason: "x"}}, true, false},
		"its row was gone at a look":  {[]journal.Payload{claim(token), gone("")}, true, false},
		"its row did not say running": {[]journal.Payload{claim(token), running, gone(journal.RowRunning)}, true, false},
		"it may have started":         {[]journal.Payload{claim(token), running}, true, true},
		"it has ended":                {[]journal.Payload{claim(token), running, started, done("ok")}, true, true},
		"its end was not shown":       {[]journal.Payload{claim(token), running, started, gone(journal.RowDone)}, true, true},
		"one behind it has started":   {[]journal.Payload{claim(token), running, gone(journal.RowRunning), claim("@aaaa22222"), running, started, done("ok")}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.happen(1, time.Now(), test.happened...)
			got, started, err := reconcile.Claimed(t.Context(), w.history, 1, token)
			if err != nil || (got != nil) != test.known || started != test.started {
				t.Errorf("claim %v, started %v, %v", got, started, err)
			}
		})
	}
}

// Rows that wait, were created before the history begins, and are not in it, may have run.
func TestUnknown(t *testing.T) {
	t.Parallel()
	removed := &journal.RemovedError{First: 1, Since: long}
	cases := []struct {
		name    string
		removed *journal.RemovedError
		lost    bool
		wish    reconcile.Reapply
		want    reconcile.Unknown
	}{
		{"by a whole history", nil, false, reconcile.Reapply{}, reconcile.Unknown{Name: "node-1", Begins: long, Rows: []int64{3}}},
		{"by a history whose beginning was removed", removed, false, reconcile.Reapply{}, reconcile.Unknown{Name: "node-1", Begins: long, Removed: true, Rows: []int64{3}}},
		{"since a time that the history covers", nil, false, reconcile.Reapply{Since: long}, reconcile.Unknown{Name: "node-1"}},
		{
			"since a time before it", nil, false,
			reconcile.Reapply{Since: long.Add(-time.Hour)},
			reconcile.Unknown{Name: "node-1", Begins: long, Rows: []int64{3}},
		},
		{"among some", nil, false, reconcile.Reapply{Among: []int64{1, 4}}, reconcile.Unknown{Name: "node-1", Rows: []int64{4}}},
		{"by a lost worker's history", nil, true, reconcile.Reapply{Among: []int64{1, 2, 3}}, reconcile.Unknown{Name: "node-2", Rows: []int64{2, 3}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := unknownWorld(t)
			w.history.Removed = c.removed
			c.wish.Config, c.wish.Worker = w.config(), "node-1"
			if c.lost {
				c.wish.Mirror = nil
			}
			got, err := c.wish.Unknown(t.Context())
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v, unknown (-want +got):\n%s", err, diff)
			}
		})
	}
}

// unknownWorld has a job that is done, one that was started, and rows of which the history does not
// know: one from before it begins, one that was created later.
func unknownWorld(t *testing.T) *world {
	w := newWorld(t)
	w.happen(0, long, journal.Opened{Name: "node-2"})
	w.ran(1)
	w.happen(2, long, claim(tokenTwo), journal.Running{Attempt: 1})
	w.waiting(1, 2, 3, 4)
	w.table.Rows[4].Created = second + 1
	return w
}

func TestReapplyRefusesWhereRowsAreUnknown(t *testing.T) {
	t.Parallel()
	w := unknownWorld(t)
	_, err := w.reapply(&reconcile.Reapply{})
	var unknown *reconcile.UnknownError
	if !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(),
		"1 waiting rows are older than the history of node-1 (2023-11-14T22:13:20Z), and whether they have run is unknown") {
		t.Fatalf("got %v, want that a row is unknown", err)
	}
	if wrote := w.table.Applies + w.table.Claims; wrote+len(w.noted) > 0 {
		t.Errorf("%d updates, journalled %v; want none of either", wrote, w.noted)
	}
	if did, err := w.reapply(&reconcile.Reapply{AcceptUnknown: true}); err != nil || len(did) != 2 {
		t.Errorf("accepted, and %v was done (%v)", did, err)
	}
	w.expect(3, `waiting "" 0 0 ""`)
}
