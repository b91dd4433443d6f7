package exec

import (
	"time"

	"jobd/exec/board"
)

// SetTerms replaces the terms of all targets, the zone of schedules that name none, and what becomes
// of missed runs. They hold together from now on: for starts and ends, and for rows that are claimed,
// also of targets that are added later. So a configuration that is read again gives its terms first,
// and its targets then. Processes that are kept for jobs are replaced, also where nothing has changed
// that the configuration says: they may have loaded an older version of the application.
func (w *Worker) SetTerms(terms map[string]Terms, zone *time.Location, skipMissed bool) {
	w.change(func(b *board.Board) board.Effects {
		w.terms, w.zone = terms, zone
		w.skipMissed = skipMissed
		w.follow(b.SetTiming(w.timing()))
		e := b.NewLauncher()
		e.Wake = true // a rate may let more start
		return e
	})
	w.declare()
	w.recycle(w.keptTargets(), "reload")
}

// timing is what the board is told of launchers and terms. Callers must hold w.mu.
func (w *Worker) timing() board.Timing { return timing(w.launcher, w.terms, w.zone, w.skipMissed) }
