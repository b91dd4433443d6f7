package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
)

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
