package main

import (
	"context"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

// Statistics count events, and most of these don't say what they are about: the job's claim does,
// which may lie before the time that is looked at, or in a checkpoint only.

// notTold stands for what the history does not tell any more.
const notTold = "?"

// underWay is what is known of a job that has not ended.
type underWay struct {
	target            string
	accepted, running time.Time
	claim             *journal.Accepted // nil: it lies before the time that is looked at
}

// begin notes the jobs that were under way when the time that is looked at begins, and the workers'
// names.
func (s *statistics) begin(ctx context.Context, j *journals, since time.Time) error {
	return j.each(func(worker source) (err error) {
		if s.by == byWorker {
			if s.names[worker], err = nameOf(ctx, worker); err != nil {
				return err
			}
		}
		for job, err := range worker.jobs(ctx, history.AtQuery{At: since, UnderWay: true}) {
			if err != nil {
				return err
			}
			s.jobs[workerJob{worker, int64(job.Job)}] = &underWay{target: job.Target, accepted: job.Accepted, running: job.Running}
		}
		return nil
	})
}

// nameOf is the name of a source's worker, also where it is the only one.
func nameOf(ctx context.Context, worker source) (string, error) {
	if name := worker.worker(); name != "" {
		return name, nil
	}
	for e, err := range worker.events(ctx, history.Query{Kinds: []journal.Kind{journal.KindOpened}, Last: 1}) {
		if err != nil {
			return "", err
		}
		if opened, ok := e.Payload.(journal.Opened); ok {
			return opened.Name, nil
		}
	}
	return notTold, nil
}

// claimBefore is the newest claim of a job up to an event, the one of the token where that is
// given; nil where the history does not have it any more.
func claimBefore(ctx context.Context, e from[journal.Event], token string) (claim *journal.Accepted, err error) {
	for claimed, err := range e.source.events(ctx, history.Query{Job: e.item.Job, Kinds: []journal.Kind{journal.KindAccepted}}) {
		if err != nil {
			return nil, err
		}
		accepted, ok := claimed.Payload.(journal.Accepted)
		if ok && claimed.Seq < e.item.Seq && (token == "" || accepted.Token == token) {
			claim = &accepted
		}
	}
	return claim, nil
}

// ended finds the claim of a job that is not under way. There is such an event where a conflict was
// noticed when the row was written, after the job's end.
func (s *statistics) ended(ctx context.Context, e from[journal.Event]) (*underWay, error) {
	job := &underWay{target: notTold}
	conflict, ok := e.item.Payload.(journal.Conflict)
	if !ok {
		return job, nil
	}
	claim, err := claimBefore(ctx, e, conflict.Token)
	switch {
	case err != nil:
		return nil, err
	case claim != nil:
		job.target = claim.Target
	case conflict.Found != nil && conflict.Found.Target != "":
		job.target = conflict.Found.Target
	}
	return job, nil
}

// waited counts how long the row of a job waited that is about to start.
func (s *statistics) waited(ctx context.Context, e from[journal.Event], job *underWay, g *group) (err error) {
	if job.claim == nil && !job.accepted.IsZero() {
		if job.claim, err = claimBefore(ctx, e, ""); err != nil {
			return err
		}
	}
	if job.claim != nil {
		g.waited.add(waitedFor(*job.claim, job.accepted, e.item.Time))
	}
	return nil
}

// waitedFor is how long a row waited at least: time_created has whole seconds, so it was up to a
// second longer. A manual row waits for its client, not for a worker, and so counts from the claim,
// as do the rows of older journals.
func waitedFor(claim journal.Accepted, accepted, running time.Time) time.Duration {
	waited := running.Sub(accepted)
	if claim.From == journal.RowDelayed && claim.Plan != nil { // it waits from when it is due
		return max(waited, running.Sub(time.Unix(claim.Plan.RunAt, 0)))
	}
	if claim.Created > 0 && !claim.Manual {
		waited = max(waited, running.Sub(time.Unix(claim.Created+1, 0)))
	}
	return waited
}

// addLate counts how much later than planned a run began; of a row that was not to come at a time,
// and of further attempts, there is nothing to count.
func (g *group) addLate(claim *journal.Accepted, attempt int, running time.Time) {
	if claim == nil || claim.From != journal.RowDelayed && (claim.Plan == nil || claim.Plan.PlannedAt == 0) {
		return
	}
	if late, known := lateness(claim.PlannedAt, attempt, running); known {
		g.late.add(late)
	}
}
