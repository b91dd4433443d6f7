package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"jobd/journal"
)

// What becomes of a row: events make changes, and the end of a run is planned anew where its schedule
// was edited.

// advance takes a job's next transition into its change.
func (c *Change) advance(e journal.Event, of journal.Job) {
	switch p := e.Payload.(type) {
	case journal.Running:
		c.Status, c.Start, c.Attempts = journal.RowRunning, e.Time, int64(p.Attempt)
	case journal.Released:
		c.release(p, of)
	case journal.Cancelled:
		c.cancel(p.Reason())
	case journal.Done:
		c.Finish = p.EndedAt(e.Time)
		c.end(p, of)
	case journal.Replanned:
		c.replan(p)
	}
}

// release makes a change that gives a row back. An event of an older version does not say how the row was
// before its claim: then the claim says it.
func (c *Change) release(p journal.Released, of journal.Job) {
	if p.Plan != nil {
		of.From, of.Plan = p.From, p.Plan
	}
	c.giveBack(of)
}

// giveBack makes a change that gives a row back: the row then reads as before its claim.
func (c *Change) giveBack(of journal.Job) {
	c.Status, c.Start, c.Plan = journal.RowWaiting, time.Time{}, of.Plan
	switch {
	case of.Manual:
		c.Status = journal.RowManual
	case of.From == journal.RowDelayed:
		c.Status = journal.RowDelayed
	}
}

// end makes a change that ends a run: its row is done, or comes back. It is guarded by the schedule
// from which that was planned; not where the schedule had no say: the row was manual, or is done
// though it recurs, because somebody cancelled it.
func (c *Change) end(done journal.Done, of journal.Job) {
	c.Done, c.Status, c.Plan = &done, journal.RowDone, of.Plan
	if done.Again != nil {
		c.Status = journal.RowDelayed
	}
	if of.Manual || of.Plan != nil && of.Plan.Schedule != "" && done.Again == nil {
		c.Plan = nil
	}
}

// replan changes the end of a run: something else follows the run, because the row has another schedule
// by now. From then on that schedule guards the change.
func (c *Change) replan(p journal.Replanned) {
	if c.Done == nil {
		return
	}
	done, plan := *c.Done, journal.Plan{}
	if c.Plan != nil {
		plan = *c.Plan
	}
	plan.Schedule, plan.Zone, done.Again = p.Schedule, p.Zone, p.Again
	done.Note = both(done.Note, p.Note)
	c.Done, c.Plan, c.Status = &done, &plan, journal.RowDone
	if done.Again != nil {
		c.Status = journal.RowDelayed
	}
}

// both are two notes in one; either may be empty, and the second is not said twice.
func both(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "" || strings.HasSuffix(first, second):
		return first
	}
	return first + "; " + second
}

// cancel makes a change that ends a claim which was not started: its row is ignored, and tells why
// as a job's stderr would.
func (c *Change) cancel(reason string) {
	c.Status, c.Start, c.Done = journal.RowIgnored, time.Time{}, &journal.Done{Note: reason}
}

// GivesBack tells whether the change gives its row back.
func (c *Change) GivesBack() bool {
	return c.Status == journal.RowWaiting || c.Status == journal.RowManual || c.Status == journal.RowDelayed && c.Done == nil
}

// EndsRun tells whether the change is the end of a run, after which the row may come back.
func (c *Change) EndsRun() bool {
	return c.Status == journal.RowDone || c.Status == journal.RowDelayed && c.Done != nil
}

// follow merges a later change of the same claim into this one.
func (c *Change) follow(later Change) {
	if later.Done != nil && later.Start.IsZero() {
		later.Start = c.Start
	}
	if later.Attempts == 0 {
		later.Attempts = c.Attempts
	}
	if later.Accepted.IsZero() {
		later.Accepted = c.Accepted
	}
	if later.target == "" {
		later.target = c.target
	}
	later.first = c.first
	*c = later
}

// size is how much output a change brings into the table.
func (c *Change) size() int {
	if c.Done == nil {
		return 0
	}
	return len(c.Done.Stdout.Kept) + len(c.Done.Stderr.Kept)
}

// Why the end of a run waits if its row has another schedule than its claim had.
const (
	editedAgain = "its schedule is edited again and again"
	nobodyPlans = "its schedule was edited while it ran, and this worker plans nothing"
)

// replan takes the ends of runs whose rows have another schedule by now. It plans anew what follows
// them, journals that, and applies the new ends, which replace the old ones in changes and outcomes.
// Where a row was edited once more meanwhile, its end is held.
func (m *Mirror) replan(ctx context.Context, changes []Change, outcomes []Outcome) error {
	edited := editedOf(outcomes)
	if m.Replan == nil {
		hold(outcomes, nobodyPlans)
		return nil
	}
	drafts, again := make([]journal.Draft, len(edited)), make([]Change, len(edited))
	for i, at := range edited {
		p, err := m.planAnew(ctx, changes[at], outcomes[at].Found)
		if err != nil {
			return err
		}
		drafts[i] = journal.Draft{Job: changes[at].Job, Payload: p}
		changes[at].replan(p)
		again[i] = changes[at]
	}
	if err := m.append(ctx, drafts); err != nil {
		return err
	}
	better, err := m.send(ctx, again)
	if err != nil {
		return err
	}
	for i, at := range edited {
		outcomes[at] = better[i]
	}
	hold(outcomes, editedAgain)
	return nil
}

// planAnew plans what follows the end of a run whose row was found with another schedule.
func (m *Mirror) planAnew(ctx context.Context, c Change, found *journal.Row) (journal.Replanned, error) {
	claim, err := m.Source.Claim(ctx, c.Job, math.MaxInt64)
	if err != nil && !errors.Is(err, journal.ErrNoClaim) {
		return journal.Replanned{}, fmt.Errorf("claim of job %d: %w", c.Job, err)
	}
	if err != nil || claim.Token != c.Token { // the history does not have it any more
		claim = journal.Accepted{Target: c.target, Token: c.Token, Plan: c.Plan}
	}
	p := m.Replan(*c.Done, claim, *found.Plan)
	p.Token, p.Schedule, p.Zone = c.Token, found.Plan.Schedule, found.Plan.Zone
	m.Logger.Info("a schedule was edited while its job ran; its next run was planned anew", "job", c.Job, "schedule", p.Schedule)
	return p, nil
}

// editedOf gives the indexes of the outcomes whose fate is Edited.
func editedOf(outcomes []Outcome) (places []int) {
	for i, o := range outcomes {
		if o.Fate == Edited {
			places = append(places, i)
		}
	}
	return places
}

// hold leaves for later the ends of runs that must be planned anew.
func hold(outcomes []Outcome, why string) {
	for _, at := range editedOf(outcomes) {
		outcomes[at].Fate, outcomes[at].Note = Held, why
	}
}

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
