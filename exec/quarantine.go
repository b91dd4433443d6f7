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
// quarantined: claims leave it out for a while, ever longer, and then it is claimed as any other. All of
// it is in memory only: after a start the first claim finds out again. Where there are too many of them
// to remember, the claims of their target rest, and say so.

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
	mostOdd         = 3000   // rows that can never be claimed, of which clients are told
	mostQuarantined = 30_000 // refused rows that are remembered
	mostLogged      = 100    // quarantined rows that the log names
	firstQuarantine = time.Second
	longQuarantine  = 5 * time.Minute
)

// quarantine keeps a row out of claims for a while. Callers must hold w.mu.
func (w *Worker) quarantine(id int64, name, reason string) {
	q := w.quarantined[id]
	if q == nil && len(w.quarantined) >= w.mostQuarantined {
		return
	}
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

// exhausted notes that a claim has found no further row of a target: refused rows that it did not
// meet any more are gone. Callers must hold w.mu.
func (w *Worker) exhausted(t *target) {
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
	slices.SortFunc(rows, func(a, b AsideRow) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job))
	})
	return rows
}

// row is what clients are told of it.
func (q *quarantined) row(id int64) AsideRow {
	return AsideRow{Job: id, Target: q.target, Reason: q.reason, Since: q.since}
}
