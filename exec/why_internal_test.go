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

// Each reason why nothing is claimed has its words, a kind, and since when it holds where that is known. It
// goes with what it is about. A claim that waits, or a lock that hides rows, is told when that lasts.
func TestWhyNothingIsClaimed(t *testing.T) {
	t.Parallel()
	pooled := map[string]Terms{"a": {Launcher: &Launcher{Mode: ModePool}}}
	for want, test := range map[string]struct {
		kind       Hindering
		dated      bool
		terms      map[string]Terms
		begin, end func(w *Worker, a *target)
		away       bool
	}{
		"the worker stops":           {kind: HinderedStopping, begin: func(w *Worker, _ *target) { w.board.Stop() }},
		"the column is latin1":       {kind: HinderedName, begin: func(_ *Worker, a *target) { a.unfit = "the column is latin1" }},
		"the table can't be written": {kind: HinderedUnwritten, begin: func(*Worker, *target) {}, away: true},
		journal.ErrFull.Error(): {
			kind: HinderedDisk, dated: true,
			begin: func(w *Worker, _ *target) { w.noteOutage(journal.ErrFull) },
			end:   func(w *Worker, _ *target) { w.noteOutage(nil) },
		},
		"connection refused": {
			kind: HinderedDatabase, dated: true,
			begin: func(w *Worker, _ *target) { w.noteOutage(errors.New("connection refused")) },
			end:   func(w *Worker, _ *target) { w.noteOutage(nil) },
		},
		"the claim has waited for the database since 2000-01-01T00:00:00Z": { // regression: while the table was locked
			kind: HinderedStuck, dated: true,
			begin: func(w *Worker, _ *target) { w.noteAsked(time.Now()); time.Sleep(slowClaim) },
			end:   func(w *Worker, _ *target) { w.noteAsked(time.Time{}) },
		},
		"the name is another one's": {
			kind: HinderedIdentity, dated: true,
			begin: func(w *Worker, _ *target) { w.identity.why, w.identity.since = "the name is another one's", time.Now() },
		},
		"the launcher can't be executed: exec format error": {
			kind: HinderedLauncher, dated: true, begin: func(w *Worker, _ *target) { refusedStart(w) },
		},
		"it never says ready": {
			kind: HinderedExecutor, dated: true, terms: pooled,
			begin: func(w *Worker, a *target) { w.board.SetUnable(a.Target, "it never says ready", time.Now()) },
			end:   func(w *Worker, a *target) { w.board.SetUnable(a.Target, "", time.Now()) },
		},
		"illegal mix of collations": {
			kind:  HinderedTrouble,
			begin: func(_ *Worker, a *target) { a.trouble.why = "illegal mix of collations" },
			end:   func(_ *Worker, a *target) { a.trouble.ended() },
		},
		"somebody else has locked the rows that wait, since 2000-01-01T00:00:00Z": {
			kind: HinderedLocked, dated: true,
			begin: func(_ *Worker, a *target) {
				a.locked.note(nil, time.Now())
				time.Sleep(longLocked)
				a.locked.note(nil, time.Now())
			},
			end: func(_ *Worker, a *target) { a.locked = locked{} },
		},
		"its rate of 1/h is used up; the next start may be in 1h0m1s": {
			kind: HinderedRate,
			begin: func(_ *Worker, a *target) {
				a.bucket.set(Rate{Starts: 1, Per: time.Hour}, time.Now())
				a.bucket.take(time.Now())
				a.polls++
			},
			end: func(*Worker, *target) { time.Sleep(2 * time.Hour) },
		},
		"": {begin: func(w *Worker, a *target) {
			w.noteAsked(time.Now())
			time.Sleep(slowClaim - time.Second)
			a.locked.note(errors.New("connection lost"), time.Now())
			w.board.Pause([]*board.Target{a.Target}, time.Now(), "somebody") // another field tells it
		}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := New(Config{Targets: map[string]int{"a": 1, "b": 1}, Terms: test.terms, Logger: slog.New(slog.DiscardHandler)})
				a, begun := w.targets["a"], time.Now()
				if got := w.hindrance(a, false); got != (Hindrance{}) {
					t.Errorf("at first: %+v", got)
				}
				test.begin(w, a)
				since := time.Time{}
				if test.dated {
					since = begun
				}
				if got := w.hindrance(a, test.away); got.Kind != test.kind || got.Why != want || !got.Since.Equal(since) {
					t.Errorf("%+v, want %s since %s: %q", got, test.kind, since, want)
				}
				if test.end != nil {
					test.end(w, a)
					if got := w.hindrance(a, test.away); got != (Hindrance{}) {
						t.Errorf("at last: %+v", got)
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
