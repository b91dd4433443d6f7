package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"jobd/exec/board"
)

// aside is a row that waits, and that the table does not let us claim: a rule of it, such as a
// CHECK or a trigger, refuses the update. It is left out of claims, and the table is asked from
// time to time, without a word in the journal, whether it would let us by now.
type aside struct {
	target  string
	reason  string
	since   time.Time
	rest    board.Backoff
	alone   bool // the table is asked about it by itself
	trusted bool // the table said that it would let us: the row is claimed as any other
	misled  bool // it said so before, and did not
}

// AsideRow is a row that can't be claimed for now, as clients are told of it.
type AsideRow struct {
	Job    int64     `json:"job"` // 0: the reason names it
	Target string    `json:"target"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

const (
	mostOdd     = 3000 // rows that can never be claimed, of which clients are told
	mostLogged  = 100  // rows set aside that the log names
	mostProbes  = 100  // rows that the table is asked about at a time
	firstAside  = time.Second
	longAside   = 10 * time.Second
	misledAside = 5 * time.Minute
	trustTime   = time.Minute // until a row that can be claimed, and was not found any more, is forgotten
)

// setAsideAll sets aside the rows that a claim was refused. It is false where that changes nothing.
// Callers must hold w.mu.
func (w *Worker) setAsideAll(c *claiming, refused map[int64]string) (changed bool) {
	targets := make(map[int64]string)
	for _, row := range c.rows {
		targets[row.Job] = row.Target
	}
	for _, id := range slices.Sorted(maps.Keys(refused)) {
		if name, ours := targets[id]; ours {
			w.setAside(id, name, refused[id])
			changed = true
		}
	}
	return changed
}

// setAside keeps a row out of claims for a while. Callers must hold w.mu.
func (w *Worker) setAside(id int64, name, reason string) {
	a := w.asides[id]
	if a == nil {
		a = &aside{target: name, since: time.Now()}
		w.asides[id] = a
		w.logAside(id, name, reason)
	}
	most := longAside
	if a.misled = a.misled || a.trusted; a.misled {
		most = misledAside
	}
	a.reason, a.trusted = reason, false
	a.rest.Grow(time.Now(), firstAside, most)
}

// logAside says that a row is set aside, as long as there are not too many to be read. Callers must
// hold w.mu.
func (w *Worker) logAside(id int64, name, reason string) {
	switch n := len(w.asides); {
	case n <= mostLogged:
		w.Logger.Warn("row is set aside: it can't be claimed for now", "job", id, "target", name, "reason", reason)
	case n == mostLogged+1:
		w.Logger.Warn("more rows are set aside; status lists them", "target", name)
	}
}

// retryOthers has the rows claimed again, and nothing behind them, that a claim would have won but
// for those that were refused: else they would wait until all refused rows are known. Callers must
// hold w.mu.
func (w *Worker) retryOthers(r round, c *claiming, refused map[int64]string) {
	for name := range r.room {
		t, served := w.targets[name]
		if !served {
			continue
		}
		taken := c.jobsOf(name)
		others := slices.DeleteFunc(slices.Clone(taken), func(id int64) bool { _, is := refused[id]; return is })
		switch {
		case len(others) == len(taken):
		case len(others) > 0:
			t.trouble.narrow = len(others)
		default:
			t.trouble.ended()
			w.forgetAsides(t)
		}
	}
}

// probe asks the table about the rows set aside for which that is due.
func (w *Worker) probe(ctx context.Context) error {
	ids := w.dueAsides(time.Now())
	if len(ids) == 0 {
		return nil
	}
	refused, err := w.Table.Probe(ctx, ids)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		a, there := w.asides[id]
		if !there {
			continue
		}
		why, still := refused[id]
		switch {
		case err != nil:
			a.alone = true
			a.rest.Grow(time.Now(), firstAside, longAside)
		case still:
			a.reason = why
			a.rest.Grow(time.Now(), firstAside, longAside)
		default:
			a.trusted = true
			w.hurryProbes()
			a.rest.Due = time.Now().Add(trustTime)
			w.pollNamed(a.target)
		}
	}
	if concernsAll(ctx, err) {
		return err
	}
	return nil
}

// NoteOdd notes a row that can never be claimed, because what it has for an id is none.
func (w *Worker) NoteOdd(row, target, reason string) {
	w.Logger.Error("row can't be claimed", "row", row, "target", target, "reason", reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.odd) < mostOdd {
		w.odd = append(w.odd, AsideRow{Target: target, Reason: fmt.Sprintf("row %s: %s", row, reason), Since: time.Now()})
	}
}

// asideRows lists the rows that can't be claimed for now. Callers must hold w.mu.
func (w *Worker) asideRows() []AsideRow {
	rows := slices.Clone(w.odd)
	for id, a := range w.asides {
		if !a.trusted {
			rows = append(rows, AsideRow{Job: id, Target: a.target, Reason: a.reason, Since: a.since})
		}
	}
	for _, t := range w.targets {
		if t.sweep.passed > 0 {
			rows = append(rows, t.passedOver())
		}
	}
	slices.SortFunc(rows, func(a, b AsideRow) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job))
	})
	return rows
}

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

// A table may refuse thousands of rows, and be asked about each of them for days. So there is a pace: so
// many rows a second in all, some of them in one go. Few rows are never held up by it. Where the table lets
// one be claimed that it refused before, a rule was mended, and the others are asked about without delay.

const (
	probePace  = 10               // rows a second that the table is asked about
	probeGo    = 2 * probePace    // rows in one go, where they wait for the pace
	probeStore = 2 * mostProbes   // rows that need not wait for it, if there was nothing to ask about before
	probeWait  = time.Second / 10 // what a wait for the pace is rounded up by
)

// newProbing makes the pace at which the table is asked about rows that were set aside.
func newProbing() *rate.Limiter { return rate.NewLimiter(probePace, probeStore) }

// dueAsides lists the rows that the table is to be asked about in one go, those first that have waited
// for longest, and forgets those that it lets us claim and that no claim has met since: they are gone.
func (w *Worker) dueAsides(now time.Time) (ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.asides {
		switch {
		case a.rest.Due.After(now):
		case a.trusted:
			delete(w.asides, id)
		default:
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || w.pacedUntil(now).After(now) {
		return nil
	}
	slices.SortFunc(ids, func(one, other int64) int { return w.asides[one].rest.Due.Compare(w.asides[other].rest.Due) })
	ids = ids[:min(len(ids), mostProbes, max(int(w.probing.TokensAt(now)), 1))]
	if alone := slices.IndexFunc(ids, func(id int64) bool { return w.asides[id].alone }); alone >= 0 {
		ids = ids[alone : alone+1]
	}
	w.probing.AllowN(now, len(ids))
	slices.Sort(ids)
	return ids
}

// pacedUntil is when the table may be asked about rows again. Callers must hold w.mu.
func (w *Worker) pacedUntil(now time.Time) time.Time {
	missing := probeGo - w.probing.TokensAt(now)
	if missing <= 0 {
		return now
	}
	return now.Add(time.Duration(missing/probePace*float64(time.Second)) + probeWait)
}

// hurryProbes has the table asked about all rows without delay. Callers must hold w.mu.
func (w *Worker) hurryProbes() { w.probing = newProbing() }
