package exec

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
)

// A rule of the table, such as a CHECK or a trigger, may refuse a row to a claim. Such a row is
// quarantined: claims leave it out for a while, ever longer, and then it is claimed as any other. All of
// it is in memory only: after a start the first claim finds out again. Where there are too many of them
// to remember, the claims of their target rest, and say so.

// QuarantinedRow is a row that can't be claimed for now, as clients are told of it.
type QuarantinedRow struct {
	Job    int64     `json:"job"`
	Target string    `json:"target"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// quarantined is a row that the table does not let us claim.
type quarantined struct {
	QuarantinedRow
	rest board.Backoff // until it is claimed again; over: it is among those that are claimed
}

const (
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
		q = &quarantined{QuarantinedRow: QuarantinedRow{Job: id, Target: name, Since: time.Now()}}
		w.quarantined[id] = q
		switch n := len(w.quarantined); {
		case n <= mostLogged:
			w.Logger.Warn("row is quarantined: it can't be claimed for now", "job", id, "target", name, "reason", reason)
		case n == mostLogged+1:
			w.Logger.Warn("more rows are quarantined; status lists them", "target", name)
		}
	}
	q.Reason = reason
	q.rest.Grow(time.Now(), firstQuarantine, longQuarantine)
}

// exhausted notes that a claim has found no further row of a target: refused rows that it did not
// meet any more are gone. Callers must hold w.mu.
func (w *Worker) exhausted(t *target) {
	maps.DeleteFunc(w.quarantined, func(_ int64, q *quarantined) bool { return q.Target == t.Name() && q.rest.Due.IsZero() })
}

// quarantinedRows lists the rows that can't be claimed for now. Callers must hold w.mu.
func (w *Worker) quarantinedRows() []QuarantinedRow {
	rows := make([]QuarantinedRow, 0, len(w.quarantined))
	for _, q := range w.quarantined {
		rows = append(rows, q.QuarantinedRow)
	}
	slices.SortFunc(rows, func(a, b QuarantinedRow) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job))
	})
	return rows
}
