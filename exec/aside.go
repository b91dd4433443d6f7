package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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
