package exec

import "time"

// why is why nothing is claimed for a target, in words for the operator; "" where nothing is wrong.
// That it is paused, that its slots are full, and that nothing waits, is not wrong: other fields of
// the status tell it. Callers must hold w.mu.
func (w *Worker) why(t *target, away bool) string { return w.hindrance(t, away).Why }

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
