package exec

import (
	"fmt"
	"time"
)

// TargetStatus is what clients are told of a target.
type TargetStatus struct {
	Paused      bool   `json:"paused"`
	Concurrency int    `json:"concurrency"`
	Length      int    `json:"length"`        // jobs waiting and running
	Why         string `json:"why,omitempty"` // why nothing is claimed for it; "" where nothing is wrong

	Running     int    `json:"running"`               // slots in use
	Prefetched  int    `json:"prefetched"`            // claimed, and waiting for a slot
	PausedSince int64  `json:"pausedSince,omitempty"` // unix milliseconds
	PausedBy    string `json:"pausedBy,omitempty"`
	Started     int    `json:"startedLastMinute"`
	Ended       int    `json:"endedLastMinute"`
	Failed      int    `json:"failedLastMinute"` // of those that ended
}

// Status is what clients are told of the worker.
type Status struct {
	Targets   map[string]TargetStatus
	Clients   int        // manual jobs that a client waits for
	Strangers int        // rows of our targets that are under way and belong to no worker
	Doubted   int        // claims of which the table has not told yet whether they were won
	Aside     []AsideRow // rows that can't be claimed for now, the oldest first
	Launcher  *Hitch     // why no job can be started; nil where nothing is wrong
}

// Status tells how the worker stands.
func (w *Worker) Status() Status {
	away := isClosed(w.Mirror.Away())
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Targets: make(map[string]TargetStatus, len(w.targets)), Clients: w.board.Clients(), Strangers: w.strangers,
		Doubted: w.board.Doubts(), Aside: w.asideRows(),
		Launcher: w.hitchStatus(),
	}
	for name, t := range w.targets {
		s.Targets[name] = TargetStatus{
			Paused: t.Paused(), Concurrency: t.Concurrency(), Length: t.Length(), Why: w.why(t, away),
		}
	}
	return s
}

// why is why nothing is claimed for a target, in words for the operator. Callers must hold w.mu.
func (w *Worker) why(t *target, away bool) string {
	switch {
	case t.unfit != "":
		return t.unfit
	case w.outage != "":
		return w.outage
	case w.asked.stuck():
		return "the claim has waited for the database since " + w.asked.since.UTC().Format(time.RFC3339)
	case away:
		return "the table can't be written"
	case w.identity.why != "":
		return w.identity.why
	case w.board.Hitch() != nil:
		return w.board.Hitch().Text()
	}
	if t.trouble.why == "" && t.Crowded(w.Prefetch) {
		return fmt.Sprintf("%d jobs were claimed and can't be started for now, because their rows can't be updated", t.Parked())
	}
	return t.trouble.why
}

// TargetNames lists the names of the targets served, in order.
func (w *Worker) TargetNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Names()
}
