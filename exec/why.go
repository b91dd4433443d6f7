package exec

import (
	"fmt"
	"time"
)

// why is why nothing is claimed for a target, in words for the operator; "" where nothing is wrong.
// That it is paused, that its slots are full, and that nothing waits, is not wrong: other fields of
// the status tell it. Callers must hold w.mu.
func (w *Worker) why(t *target, away bool) string {
	switch {
	case w.board.Stopping():
		return "the worker stops"
	case t.unfit != "":
		return t.unfit
	case w.outage.why != "":
		return w.outage.why
	case w.asked.stuck():
		return "the claim has waited for the database since " + w.asked.since.UTC().Format(time.RFC3339)
	case away:
		return "the table can't be written"
	case w.identity.why != "":
		return w.identity.why
	case w.board.Hitch() != nil:
		return w.board.Hitch().Text()
	case t.RetiredBy() != "":
		return fmt.Sprintf("it is removed as soon as its jobs have ended: %d are left", t.Length())
	case t.trouble.why != "":
		return t.trouble.why
	case t.Crowded(w.Prefetch):
		return fmt.Sprintf("%d jobs were claimed and can't be started for now, because their rows can't be updated", t.Parked())
	case t.locked.long():
		return "somebody else has locked the rows that wait, since " + t.locked.since.UTC().Format(time.RFC3339)
	}
	return ""
}

// locked is since when claims find no row of a target that somebody else has not locked, though
// rows wait. The worker's mutex guards it.
type locked struct{ since time.Time } // zero: that is not so

// note notes that a look has found such rows, unless it failed.
func (l *locked) note(failed error, now time.Time) {
	if failed == nil && l.since.IsZero() {
		l.since = now
	}
}

// long tells whether that lasts longer than other workers' claims do.
func (l *locked) long() bool { return !l.since.IsZero() && time.Since(l.since) >= slowClaim }
