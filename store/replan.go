package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"jobd/journal"
)

// replanRounds is how often one try plans an end anew, whose row is edited again meanwhile.
const replanRounds = 3

// Why an end waits whose row has another schedule than its claim had.
const (
	editedAgain   = "its schedule is edited again and again"
	noRoomForPlan = "its schedule was edited while it ran, and there is no room in the journal to note what follows"
	nobodyPlans   = "its schedule was edited while it ran, and this worker plans nothing"
)

// replan plans the ends anew whose rows have another schedule by now, journals that, and applies
// them as planned then. Changes and outcomes are what they are after that; what is still not
// settled is held.
func (m *Mirror) replan(ctx context.Context, changes []Change, outcomes []Outcome, try applying) error {
	if m.Replan == nil {
		hold(outcomes, nobodyPlans)
		return nil
	}
	for range replanRounds {
		edited := editedOf(outcomes)
		if len(edited) == 0 {
			return nil
		}
		drafts := make([]journal.Draft, len(edited))
		for i, at := range edited {
			p, err := m.planAnew(ctx, changes[at], outcomes[at].Found)
			if err != nil {
				return err
			}
			drafts[i] = journal.Draft{Job: changes[at].Job, Payload: p}
		}
		switch _, err := m.Source.Append(drafts...); {
		case errors.Is(err, journal.ErrFull):
			m.Logger.Warn("what follows runs whose schedule was edited can't be journalled for now", "error", err)
			hold(outcomes, noRoomForPlan)
			return nil
		case err != nil:
			return fmt.Errorf("journal what follows a run: %w", err)
		}
		again := make([]Change, len(edited))
		for i, at := range edited {
			changes[at].replan(drafts[i].Payload.(journal.Replanned))
			again[i] = changes[at]
		}
		better, err := try(ctx, again)
		if err != nil {
			return err
		}
		for i, at := range edited {
			outcomes[at] = better[i]
		}
	}
	hold(outcomes, editedAgain)
	return nil
}

// planAnew is what follows an end whose row was found with another schedule.
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

// editedOf are the places of the outcomes that say so.
func editedOf(outcomes []Outcome) (places []int) {
	for i, o := range outcomes {
		if o.Fate == Edited {
			places = append(places, i)
		}
	}
	return places
}

// hold leaves what is to be planned anew for later.
func hold(outcomes []Outcome, why string) {
	for _, at := range editedOf(outcomes) {
		outcomes[at].Fate, outcomes[at].Note = Held, why
	}
}
