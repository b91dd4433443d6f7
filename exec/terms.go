package exec

import (
	"time"

	"jobd/exec/board"
)

// Terms are what the configuration says of the jobs of one target, beside how many may run at once.
type Terms struct {
	Attempts  int           // starts of a run in all; 0: one, or, where jobs of unknown outcome are started again, Config.MaxAttempts
	Backoff   Backoff       // between them
	Timeout   time.Duration // of one start; 0: no limit
	KillAfter time.Duration // between SIGTERM and SIGKILL, when the timeout is over
	Rate      Rate          // of starts
	Launcher  *Launcher     // nil: the worker's
}

// Backoff is how long a failed run waits for its next attempt: First, then twice as long each time,
// Most at most, ± a fifth.
type Backoff struct{ First, Most time.Duration }

// Rate is how many starts there may be in a time; zero: as many as there can be.
type Rate struct {
	Starts int
	Per    time.Duration
	Fleet  bool // of all workers of the master together
}

// timing is what the board is told of the terms.
func timing(common Launcher, terms map[string]Terms, zone *time.Location, skipMissed bool) board.Timing {
	t := board.Timing{
		Terms: make(map[string]board.Terms, len(terms)), Zone: zone, SkipMissed: skipMissed, Executor: common.Mode.Executor(),
	}
	for name, of := range terms {
		its := board.Terms{
			Attempts: of.Attempts, First: of.Backoff.First, Most: of.Backoff.Most, Timeout: of.Timeout, KillAfter: of.KillAfter,
		}
		if of.Launcher != nil {
			its.Own, its.Executor = true, of.Launcher.Mode.Executor()
		}
		t.Terms[name] = its
	}
	return t
}

// launcherOf is the launcher of a target's jobs. Callers must hold w.mu.
func (w *Worker) launcherOf(target string) Launcher {
	if own := w.terms[target].Launcher; own != nil {
		return *own
	}
	return w.launcher
}
