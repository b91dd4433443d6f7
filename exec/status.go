package exec

import "time"

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
	Failed      int    `json:"failedLastMinute"`  // of those that ended
	NextDue     int64  `json:"nextDue,omitempty"` // when its next delayed row is due, as far as claims have learned, unix seconds; 0: none is known
}

// Status is what clients are told of the worker.
type Status struct {
	Targets   map[string]TargetStatus
	Clients   int        // manual jobs that a client waits for
	Strangers int        // rows of our targets that are under way and belong to no worker
	Doubted   int        // claims of which the table has not told yet whether they were won
	Aside     []AsideRow // rows that can't be claimed for now, the oldest first
	Launcher  *Hitch     // why no job can be started; nil where nothing is wrong
	Outage    *Outage    // why nothing at all is claimed; nil where nothing is wrong
	Returned  time.Time  // when the last outage ended in which the table was out of reach; zero: there was none
	Nameless  string     // why name and mark are not this worker's at the moment; "" where they are
	Executors Executors  // what runs jobs otherwise than in a process for each
	Full      *Outage    // since when the journal takes nothing, for want of room; nil where it does
}

// Status tells how the worker stands.
func (w *Worker) Status() Status {
	away, now, executors := isClosed(w.Mirror.Away()), time.Now(), w.executors()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Executors: executors,
		Targets:   make(map[string]TargetStatus, len(w.targets)), Clients: w.board.Clients(), Strangers: w.strangers,
		Doubted: w.board.Doubts(), Aside: w.asideRows(),
		Launcher: w.hitchStatus(), Outage: w.outage.status(), Returned: w.outage.returned, Full: w.fullStatus(),
		Nameless: w.identity.missing(),
	}
	for name, t := range w.targets {
		s.Targets[name] = w.targetStatus(t, away, now)
	}
	return s
}

// targetStatus is what clients are told of a target. Callers must hold w.mu.
func (w *Worker) targetStatus(t *target, away bool, now time.Time) TargetStatus {
	rates := t.Rates(now)
	status := TargetStatus{
		Paused: t.Paused(), Concurrency: t.Concurrency(), Length: t.Length(), Why: w.why(t, away),
		Running: t.Running(), Prefetched: t.Prefetched(),
		Started: rates.Started, Ended: rates.Ended, Failed: rates.Failed,
	}
	if len(t.dues) > 0 {
		status.NextDue = t.dues[0]
	}
	if since, by := t.PausedBy(); t.Paused() {
		status.PausedSince, status.PausedBy = since.UnixMilli(), by
	}
	return status
}

// TargetNames lists the names of the targets served, in order.
func (w *Worker) TargetNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Names()
}
