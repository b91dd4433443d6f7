package exec

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
)

// A table may refuse any number of rows of a target. The worker remembers the newest mostAsides of
// them, by id, and claims behind those that it has forgotten: claims go by id, so that whatever
// could be claimed before them was. So a target with more refused rows than that is swept from its
// first row to its last one, and then claimed for at its end. What was passed over may be claimable
// by now, and rows may wait there that were given back: after some time it is swept again, in turns
// with its end, so that new rows do not wait for that.

// sweep is where the claims of a target are that has too many refused rows to remember.
type sweep struct {
	behind int64         // rows up to this one are passed over
	passed int           // how many of them were refused
	since  time.Time     // when the first was
	end    int64         // not 0: it is swept again, and this was the last row of the sweep before
	atEnd  bool          // the last claim was made there
	rest   board.Backoff // until it is swept again
}

const (
	mostAsides = 3000 // refused rows of one target that are remembered
	firstSweep = 10 * time.Second
	longSweep  = 10 * time.Minute
)

// swept tells whether the target is claimed for behind some row.
func (s *sweep) swept() bool { return s.behind != 0 || s.end != 0 }

// next gives the row behind which is to be claimed next; end tells whether that is a look at new
// rows.
func (s *sweep) next() (behind int64, end bool) {
	if s.end == 0 {
		return s.behind, false
	}
	if s.atEnd = !s.atEnd; s.atEnd {
		return s.end, true
	}
	return s.behind, false
}

// ended notes that no row was found any more.
func (s *sweep) ended() {
	if s.behind == 0 { // there are not so many any more
		*s = sweep{}
		return
	}
	if s.end = 0; s.rest.Due.IsZero() {
		s.rest.Grow(time.Now(), firstSweep, longSweep)
	}
}

// forgetAsides forgets rows that were refused, those with the lowest ids, as far as there are too
// many. Whatever a claim has met beside them must have been claimed. Callers must hold w.mu.
func (w *Worker) forgetAsides(t *target) {
	if len(w.asides) <= mostAsides {
		return
	}
	ids := w.asidesOf(t.Name())
	if len(ids) <= mostAsides {
		return
	}
	if t.sweep.since.IsZero() {
		t.sweep.since = time.Now()
		w.Logger.Warn("the table refuses more rows of a target than are remembered; the lowest are passed over, and tried again from time to time",
			"target", t.Name(), "remembered", mostAsides)
	}
	for _, id := range ids[:len(ids)-mostAsides] {
		delete(w.asides, id)
		t.sweep.behind = id
		t.sweep.passed++
	}
}

// asidesOf lists the rows of a target that are set aside, in order. Callers must hold w.mu.
func (w *Worker) asidesOf(name string) (ids []int64) {
	for id, a := range w.asides {
		if a.target == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// sweepAgain has a target claimed for from its first row on. Callers must hold w.mu.
func (w *Worker) sweepAgain(t *target) {
	ids := w.asidesOf(t.Name())
	end := t.sweep.behind
	if len(ids) > 0 {
		end = max(end, ids[len(ids)-1])
	}
	maps.DeleteFunc(w.asides, func(_ int64, a *aside) bool { return a.target == t.Name() })
	t.sweep.behind, t.sweep.passed, t.sweep.end = 0, 0, end
	t.polls++
}

// sweepSoon has a target swept again soon: rows of it wait again. Callers must hold w.mu.
func (t *target) sweepSoon(now time.Time) {
	if soon := now.Add(firstSweep); t.sweep.rest.Due.After(soon) {
		t.sweep.rest.Due = soon
	}
}

// passedOver tells clients of the rows that are refused and not remembered.
func (t *target) passedOver() AsideRow {
	return AsideRow{Target: t.Name(), Since: t.sweep.since, Reason: fmt.Sprintf(
		"%d more rows, up to job %d, are refused; they are passed over, and tried again from time to time", t.sweep.passed, t.sweep.behind)}
}
