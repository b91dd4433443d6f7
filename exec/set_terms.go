package exec

import "time"

// SetTerms replaces the terms of all targets, the zone of schedules that name none, and what becomes
// of missed runs, for whatever is decided from now on.
func (w *Worker) SetTerms(terms map[string]Terms, zone *time.Location, skipMissed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Terms, w.Zone, w.SkipMissed = terms, zone, skipMissed
}
