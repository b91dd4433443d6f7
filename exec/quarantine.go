package exec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
)

// A rule of the table, such as a CHECK or a trigger, may refuse a row to a claim. Such a row is
// quarantined: claims leave it out for a while, ever longer, and then it is claimed as any other. Of
// each target so many rows are remembered. Where more are refused, claims go behind them (the claim
// cursor), and come back to the first row after a while. All of it is in memory only: after a start
// the first claim finds out again.

// quarantined is a row that the table does not let us claim.
type quarantined struct {
	target string
	reason string
	since  time.Time
	rest   board.Backoff // until it is claimed again; over: it is among those that are claimed
}

// AsideRow is a row that can't be claimed for now, as clients are told of it.
type AsideRow struct {
	Job    int64     `json:"job"` // 0: the reason names it
	Target string    `json:"target"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

const (
	mostOdd         = 3000 // rows that can never be claimed, of which clients are told
	mostQuarantined = 3000 // refused rows of one target that are remembered
	mostLogged      = 100  // quarantined rows that the log names
	firstQuarantine = time.Second
	longQuarantine  = 5 * time.Minute
	firstPassed     = 10 * time.Second // until claims come back to the first row
	longPassed      = 10 * time.Minute
)

// quarantine keeps a row out of claims for a while. Callers must hold w.mu.
func (w *Worker) quarantine(id int64, name, reason string) {
	q := w.quarantined[id]
	if q == nil {
		q = &quarantined{target: name, since: time.Now()}
		w.quarantined[id] = q
		switch n := len(w.quarantined); {
		case n <= mostLogged:
			w.Logger.Warn("row is set aside: it can't be claimed for now", "job", id, "target", name, "reason", reason)
		case n == mostLogged+1:
			w.Logger.Warn("more rows are set aside; status lists them", "target", name)
		}
	}
	q.reason = reason
	q.rest.Grow(time.Now(), firstQuarantine, longQuarantine)
}

// passed is the claim cursor of a target that has too many refused rows to remember.
type passed struct {
	behind int64         // rows up to this one are not claimed; 0: all are
	rows   int           // how many of them were refused
	since  time.Time     // when claims began to pass rows
	rest   board.Backoff // until claims come back to the first row
}

// passBy has claims go behind the refused rows of a target where there are too many of them.
// Whatever a claim has met beside them must have been claimed. Callers must hold w.mu.
func (w *Worker) passBy(t *target) {
	if len(w.quarantined) <= mostQuarantined {
		return
	}
	rows, last := 0, int64(0)
	for id, q := range w.quarantined {
		if q.target == t.Name() {
			rows, last = rows+1, max(last, id)
		}
	}
	if rows <= mostQuarantined {
		return
	}
	maps.DeleteFunc(w.quarantined, func(_ int64, q *quarantined) bool { return q.target == t.Name() })
	p := &t.passed
	if p.since.IsZero() {
		p.since = time.Now()
		w.Logger.Warn("the table refuses more rows of a target than are remembered; they are passed over, and tried again from time to time",
			"target", t.Name(), "remembered", mostQuarantined)
	}
	p.behind, p.rows = last, p.rows+rows
	if p.rest.Due.IsZero() {
		p.rest.Grow(time.Now(), firstPassed, longPassed)
	}
}

// comeBack has claims of a target begin with its first row. Callers must hold w.mu.
func (t *target) comeBack() {
	t.passed.behind, t.passed.rows, t.passed.rest.Due = 0, 0, time.Time{}
	t.polls++
}

// exhausted notes that a claim has found no further row of a target: refused rows that it did not
// meet any more are gone. Callers must hold w.mu.
func (w *Worker) exhausted(t *target) {
	if t.passed.behind == 0 {
		t.passed = passed{}
	}
	maps.DeleteFunc(w.quarantined, func(_ int64, q *quarantined) bool { return q.target == t.Name() && q.rest.Due.IsZero() })
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
	for id, q := range w.quarantined {
		rows = append(rows, q.row(id))
	}
	for name, t := range w.targets {
		if p := t.passed; p.behind != 0 {
			rows = append(rows, AsideRow{Target: name, Since: p.since, Reason: fmt.Sprintf(
				"%d rows, up to job %d, are refused; they are passed over, and tried again from time to time", p.rows, p.behind)})
		}
	}
	slices.SortFunc(rows, func(a, b AsideRow) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job))
	})
	return rows
}

// row is what clients are told of it.
func (q *quarantined) row(id int64) AsideRow {
	return AsideRow{Job: id, Target: q.target, Reason: q.reason, Since: q.since}
}
