package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"jobd/journal"
)

// batchBytes is how much output goes into one transaction, unless a single job has more.
const batchBytes = 1 << 20

// claims makes changes of events, for which it has to know to which claim each event belongs. It is
// for the mirror's goroutine.
type claims struct {
	source   Source
	logger   *slog.Logger
	recur    bool                  // rows may recur: an end needs to know what its claim found
	underWay map[int64]journal.Job // as they were claimed; a cache of the journal
}

// newClaims takes the claims of the jobs under way from the state: history may not have them any
// more.
func newClaims(source Source, logger *slog.Logger, recur bool) *claims {
	k := &claims{source: source, logger: logger, recur: recur, underWay: make(map[int64]journal.Job)}
	source.View(func(s *journal.State) {
		for id, job := range s.Jobs {
			if !job.Status.Ended() {
				k.underWay[id] = *job
			}
		}
	})
	return k
}

// collapse makes changes of the first n of the events: what each job's newest transition, together
// with those before it, makes of its row. It stops before a job is claimed a second time, so that
// each change is about one claim, and before the output gets too large. Events whose claim nobody
// knows are lost: the mirror journals conflicts for them.
func (k *claims) collapse(ctx context.Context, events []journal.Event) (
	changes []Change, lost []journal.Draft, n int, err error,
) {
	index := make(map[int64]int)
	bytes := 0
	for i, e := range events {
		if done, isEnd := e.Payload.(journal.Done); isEnd {
			bytes += (&Change{Done: &done}).size()
		}
		if bytes > batchBytes && len(changes) > 0 {
			return changes, lost, i, nil
		}
		if e.Job == 0 {
			continue
		}
		if accepted, ok := e.Payload.(journal.Accepted); ok {
			if _, pending := index[e.Job]; pending {
				return changes, lost, i, nil
			}
			k.underWay[e.Job] = claimOf(accepted, e.Time)
			continue
		}
		if p, ok := e.Payload.(journal.Replanned); ok {
			if at, pending := index[e.Job]; pending && changes[at].Token == p.Token {
				changes[at].replan(p) // else the end was planned anew in memory when this was appended
			}
			continue
		}
		if !mirrored(e) {
			continue
		}
		c, known, err := k.claim(ctx, e)
		if err != nil {
			return nil, nil, 0, err
		}
		if !known {
			lost = append(lost, k.lose(e)...)
			continue
		}
		at, pending := index[e.Job]
		if !pending {
			at, changes = len(changes), append(changes, Change{
				first: e.Seq, Job: e.Job, target: c.Target, Token: c.Token, Accepted: c.Accepted.Time,
			})
			index[e.Job] = at
		}
		changes[at].advance(e, c)
		if changes[at].Status != journal.RowRunning {
			delete(k.underWay, e.Job)
		}
	}
	return changes, lost, len(events), nil
}

// mirrored tells whether an event shows in the row by the mirror's work: claims, and the starts
// announced with them, are shown by the claim's own transaction.
func mirrored(e journal.Event) bool {
	switch p := e.Payload.(type) {
	case journal.Running:
		return !p.Claimed
	case journal.Released, journal.Done:
		return true
	case journal.Cancelled:
		return !p.Runs
	}
	return false
}

// claim gives the claim that an event belongs to. The event names it; for an event of an older version,
// memory or the journal has it. It is not known if retention has removed it. A claim in memory that was
// accepted after the event is a later one, and does not count.
func (k *claims) claim(ctx context.Context, e journal.Event) (of journal.Job, known bool, err error) {
	of, known = k.underWay[e.Job]
	known = known && !of.Accepted.After(e.Time)
	named := claimIn(e)
	switch {
	case known && (named.Token == "" || named.Token == of.Token):
		return of, true, nil
	case named.Token != "" && (!k.recur || e.Kind() != journal.KindDone):
		return named, true, nil
	}
	accepted, err := k.source.Claim(ctx, e.Job, e.Seq)
	if errors.Is(err, journal.ErrNoClaim) || err == nil && named.Token != "" && accepted.Token != named.Token {
		return named, named.Token != "", nil
	}
	if err != nil {
		return of, false, fmt.Errorf("claim of job %d before event %d: %w", e.Job, e.Seq, err)
	}
	of = claimOf(accepted, time.Time{})
	k.underWay[e.Job] = of
	return of, true, nil
}

// claimOf is the claim that an event made at a time; zero: nobody knows when.
func claimOf(p journal.Accepted, at time.Time) journal.Job {
	return journal.Job{Token: p.Token, Target: p.Target, Manual: p.Manual, Accepted: journal.Moment{Time: at}, From: p.From, Plan: p.Plan}
}

// claimIn is what an event itself says of its claim.
func claimIn(e journal.Event) (of journal.Job) {
	switch p := e.Payload.(type) {
	case journal.Running:
		of.Token = p.Token
	case journal.Released:
		of = journal.Job{Token: p.Token, Target: p.Target, Manual: p.Manual, From: p.From, Plan: p.Plan}
	case journal.Done:
		of.Token = p.Token
	case journal.Cancelled:
		of.Token = p.Token
	}
	return of
}

// unknownClaim is why a change can't be made of an event of an older version.
const unknownClaim = "the history does not have the claim any more, so the row can't be told from another claim's"

// lose is the conflict of an event whose claim nobody knows. A conflict without a token would
// end a claim that is under way now, which is a later one, so then it is only logged.
func (k *claims) lose(e journal.Event) (lost []journal.Draft) {
	k.logger.Warn("a row was not updated", "job", e.Job, "event", e.Seq, "reason", unknownClaim)
	var change Change
	change.advance(e, journal.Job{})
	k.source.View(func(s *journal.State) {
		if s.Job(e.Job).Status.Ended() {
			lost = []journal.Draft{{Job: e.Job, Payload: journal.Conflict{Wanted: change.Status, Reason: unknownClaim}}}
		}
	})
	return lost
}
