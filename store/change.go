package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"jobd/journal"
)

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
	m.Logger.Info("a schedule was edited while its job ran; what follows was planned anew", "job", c.Job, "schedule", p.Schedule)
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
