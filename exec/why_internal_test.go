package exec

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// refusedStart makes a job's start be refused by the system.
func refusedStart(w *Worker) {
	j := w.board.Adopt(journal.Job{ID: 1, Target: "b", Status: journal.StatusStarting}, mute{})
	w.board.Ended(j, journal.Started{}, board.Outcome{Fate: board.NotStarted, Cause: errors.New("exec format error")})
	w.board.Turn(time.Now(), "")
}

// Each reason why nothing is claimed is told, and goes with what it is about.
func TestWhyNothingIsClaimed(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		begin, end func(w *Worker, a *target)
		away       bool
	}{
		"the worker stops":           {begin: func(w *Worker, _ *target) { w.board.Stop() }},
		"the column is latin1":       {begin: func(_ *Worker, a *target) { a.unfit = "the column is latin1" }},
		"the table can't be written": {away: true},
		"connection refused": {
			begin: func(w *Worker, _ *target) { w.noteOutage(errors.New("connection refused")) },
			end:   func(w *Worker, _ *target) { w.noteOutage(nil) },
		},
		"the claim has waited for the database since 2000-01-01T00:00:00Z": {
			begin: func(w *Worker, _ *target) { w.noteAsked(time.Now()); time.Sleep(slowClaim) },
			end:   func(w *Worker, _ *target) { w.asked = time.Time{} },
		},
		"the name is another one's": {begin: func(w *Worker, _ *target) { w.identity.why = "the name is another one's" }},
		"the launcher can't be executed: exec format error": {
			begin: func(w *Worker, _ *target) { refusedStart(w) },
		},
		"illegal mix of collations": {
			begin: func(_ *Worker, a *target) { a.trouble.why = "illegal mix of collations" },
			end:   func(_ *Worker, a *target) { a.trouble.ended() },
		},
		"somebody else has locked the rows that wait, since 2000-01-01T00:00:00Z": {
			begin: func(_ *Worker, a *target) {
				a.locked.note(nil, time.Now())
				time.Sleep(longLocked)
				a.locked.note(nil, time.Now())
			},
			end: func(_ *Worker, a *target) { a.locked = locked{} },
		},
		"": {begin: func(w *Worker, a *target) {
			a.locked.note(errors.New("connection lost"), time.Now())
			w.board.Pause([]*board.Target{a.Target}, time.Now(), "somebody") // another field tells it
			time.Sleep(time.Hour)
		}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := New(Config{Targets: map[string]int{"a": 1, "b": 1}, Logger: slog.New(slog.DiscardHandler)})
				a := w.targets["a"]
				why := func() string { return w.targetStatus(a, test.away, time.Now()).Why }
				if got := why(); got != "" && !test.away {
					t.Errorf("at first: %q", got)
				}
				if test.begin != nil {
					test.begin(w, a)
				}
				if got := why(); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				if test.end != nil {
					test.end(w, a)
					if got := why(); got != "" {
						t.Errorf("at last: %q", got)
					}
				}
				w.endWhole()
				synctest.Wait()
			})
		})
	}
}

// away is an error that says that the table is out of reach.
type away struct{ text string }

func (a away) Error() string { return a.text }
func (away) Away() bool      { return true }

// Since when nothing is claimed is told from the first failure on, however the words change; and
// when the table was reached again.
func TestAnOutageIsToldFromItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{})
		now := func() (*Outage, time.Time) { s := w.outage.status(); return s, w.outage.returned }
		if o, returned := now(); o != nil || !returned.IsZero() {
			t.Errorf("at first: %+v, %v", o, returned)
		}
		begun := time.Now()
		w.noteOutage(away{"connection refused"})
		time.Sleep(time.Minute)
		if !w.noteOutage(away{"no route to host"}) || w.noteOutage(away{"no route to host"}) {
			t.Error("only other words are news")
		}
		if o, _ := now(); o == nil || *o != (Outage{Why: "no route to host", Since: begun, Away: true}) {
			t.Errorf("away: %+v", o)
		}
		w.noteOutage(fmt.Errorf("append: %w", journal.ErrFull))
		if o, returned := now(); o == nil || o.Away || !o.Since.After(begun) || !returned.Equal(o.Since) {
			t.Errorf("another outage: %+v, behind one that ended at %v", o, returned)
		}
		time.Sleep(time.Minute)
		w.noteOutage(away{"connection refused"})
		if !w.noteOutage(nil) {
			t.Error("its end is no news")
		}
		if o, returned := now(); o != nil || !returned.Equal(time.Now()) {
			t.Errorf("at its end: %+v, %v", o, returned)
		}
	})
}
