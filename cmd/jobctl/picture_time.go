package main

import (
	"fmt"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/journal"
)

// drawnOutcome is how an attempt ended, and whether another one follows.
func drawnOutcome(done journal.Done, outcome string) string {
	if done.Timeout > 0 {
		outcome += ", its time limit was over"
	}
	if done.Again != nil && done.Again.Why == journal.AgainRetry {
		outcome += ", tried again"
	}
	return outcome
}

// lateText says how much later than planned a run began; "" where it was not planned for a time.
func lateText(plannedAt int64, attempt int, at time.Time) string {
	late, known := lateness(plannedAt, attempt, at)
	if !known {
		return ""
	}
	return screen.ShortLength(late) + " later than planned"
}

// forget forgets a claim that is over.
func (w *drawnWorker) forget(job int64) {
	delete(w.claimed, job)
	delete(w.planned, job)
}

// name is the job of a bar, and which attempt it is where that is not the first.
func (b bar) name() string {
	if b.attempt > 1 {
		return fmt.Sprintf("job %d, attempt %d", b.job, b.attempt)
	}
	return fmt.Sprintf("job %d", b.job)
}

// told is how a bar ended, and whether it began late.
func (b bar) told() string {
	if b.late != "" {
		return b.outcome + ", " + b.late
	}
	return b.outcome
}
