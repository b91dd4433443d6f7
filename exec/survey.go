package exec

import (
	"context"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// After each start and each outage the worker looks for rows under way of which its journal knows
// nothing. They bear its mark, which no other worker that lives has, and a token that the journal
// does not hold as live: the journal was lost, or is an older copy, or the table is one. Nobody
// knows whether those jobs ran, so their outcome is unknown.
//
// The look is taken twice: what the first one finds may only be behind, and the second one comes
// when the mirror has tried to show everything up to then. A row that the mirror still owes
// something is left to it.
//
// Rows of our targets that bear no token were left by something else, the original jobd for one;
// they are counted and left alone.

// survey is such a look. Only the claim loop knows it.
type survey struct {
	wanted   bool
	suspects map[int64]string // tokens of the rows that the first look has found; nil: none, or no look yet
	upTo     uint64           // the newest event then
	tried    <-chan struct{}  // closed when the mirror has tried to show it; the claim loop wakes then
	rest     board.Backoff
}

const (
	surveyWait   = 10 * time.Second // until it is looked again whatever the mirror does
	firstSurvey  = time.Second
	longSurvey   = time.Minute
	lostTogether = 100 // lost jobs that are looked at, and journalled, in one go
)

// takeSurvey takes the look that is due, if any. Its error concerns everything; any other one puts
// the look off.
func (w *Worker) takeSurvey(ctx context.Context) (err error) {
	s := &w.claims.survey
	if s.tried != nil && isClosed(s.tried) {
		s.tried, s.rest.Due = nil, time.Time{}
	}
	switch {
	case s.rest.Due.After(time.Now()):
		return nil
	case s.suspects != nil:
		err = w.secondLook(ctx, s)
	case s.wanted:
		err = w.firstLook(ctx, s)
	default:
		return nil
	}
	if err == nil || concernsAll(ctx, err) {
		return err
	}
	w.Logger.Warn("rows under way that belong to nobody could not be looked for; trying again", "error", err)
	s.rest.Grow(time.Now(), firstSurvey, longSurvey)
	return nil
}

// firstLook finds rows that may be lost.
func (w *Worker) firstLook(ctx context.Context, s *survey) error {
	w.mu.Lock()
	mark, names := w.identity.mark, w.fitNames()
	w.mu.Unlock()
	rows, err := w.Table.UnderWay(ctx, "@"+mark, names)
	if err != nil {
		return err
	}
	strangers := 0
	suspects := make(map[int64]string)
	w.Recorder.View(func(state *journal.State) {
		s.upTo = state.Seq
		for _, row := range rows {
			if row.Owner == "" {
				strangers++
			} else if !live(state.Job(row.Job), row.Owner) {
				suspects[row.Job] = row.Owner
			}
		}
	})
	w.noteStrangers(strangers)
	s.suspect(suspects, s.upTo, w.Mirror.Tried(s.upTo))
	return nil
}

// suspect plans the second look at rows, for when the mirror has tried to show everything up to an
// event.
func (s *survey) suspect(rows map[int64]string, upTo uint64, tried <-chan struct{}) {
	*s = survey{upTo: upTo}
	if len(rows) > 0 {
		s.suspects, s.tried = rows, tried
		s.rest.Due = time.Now().Add(surveyWait)
	}
}

// busy tells whether a look is wanted or under way.
func (s *survey) busy() bool { return s.wanted || s.suspects != nil }

// live tells whether the journal holds a claim as under way.
func live(known journal.Job, token string) bool {
	return !known.Status.Ended() && known.Token == token
}

func (w *Worker) noteStrangers(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 && n != w.strangers {
		w.Logger.Warn("rows of our targets are accepted or running and belong to no worker; they are left alone", "rows", n)
	}
	w.strangers = n
}

// secondLook ends the jobs whose rows are still as the first look has found them, though the mirror
// owes them nothing. The rows are locked one moment for that, on the server that claims are made
// on, and only while the mark is held.
func (w *Worker) secondLook(ctx context.Context, s *survey) error {
	if err := w.Identify(ctx); err != nil {
		return err
	}
	ids := slices.Sorted(maps.Keys(s.suspects))
	for group := range slices.Chunk(ids, lostTogether) {
		var found []journal.Row
		locked, err := w.Table.ClaimManual(ctx, group, nil, func(rows []journal.Row) ([]journal.Event, error) {
			found = slices.Clone(rows)
			return nil, nil
		})
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(row journal.Row) bool { return !board.UnderWay(row) || row.Owner != s.suspects[row.Job] })
		lost := slices.DeleteFunc(slices.Clone(found), func(row journal.Row) bool { return !isClosed(w.Mirror.Shown(s.upTo, row.Job)) })
		if err := w.takeUpLost(ctx, lost); err != nil {
			return err
		}
		owed := make(map[int64]bool)
		for _, row := range found {
			owed[row.Job] = !slices.Contains(lost, row)
		}
		maps.DeleteFunc(s.suspects, func(id int64, _ string) bool {
			return slices.Contains(group, id) && !owed[id] && !slices.Contains(locked, id)
		})
	}
	if len(s.suspects) == 0 {
		*s = survey{}
	} else {
		s.rest.Grow(time.Now(), firstSurvey, longSurvey)
	}
	return nil
}

// takeUpLost journals jobs of which the journal knows nothing, and ends them like all whose outcome
// is unknown.
func (w *Worker) takeUpLost(ctx context.Context, rows []journal.Row) error {
	rows = slices.DeleteFunc(rows, func(row journal.Row) bool { return w.knowsEnd(ctx, row) })
	if len(rows) == 0 {
		return nil
	}
	w.Logger.Error("rows bear this worker's mark and a claim that its journal does not know: their outcome is unknown",
		"rows", len(rows), "journal is new", w.fresh, "requeue", w.Requeue)
	_, err := w.append(lostDrafts(rows...)...)
	if illegal(err) != nil && len(rows) > 1 { // some were claimed anew meanwhile
		for _, row := range rows {
			if err := w.takeUpLost(ctx, []journal.Row{row}); err != nil {
				return err
			}
		}
		return nil
	}
	if illegal(err) != nil {
		return nil
	}
	if err != nil {
		return err
	}
	for _, row := range rows {
		w.change(func(b *board.Board) board.Effects { return b.LostClaim(row.Job, lostClaim(row), w.whyLost()) })
	}
	return nil
}

// lostClaim is the claim that a row tells of. What the row said about time before is known from what
// it says now: with its start the row got the number of the attempt, so that a recurring one goes on.
// One that recurs and has no planned start was run by hand.
func lostClaim(row journal.Row) journal.Accepted {
	claim := journal.Accepted{Target: row.Target, Token: row.Owner}
	if row.Plan != nil {
		plan := *row.Plan
		if row.Status == journal.RowRunning {
			plan.Attempts--
		}
		plan.Attempts = max(plan.Attempts, 0)
		claim.Plan, claim.PlannedAt = &plan, plan.PlannedAt
		claim.Manual = plan.Schedule != "" && plan.PlannedAt == 0
	}
	return claim
}

// lostDrafts says what the lost journal must have said of rows, as far as can be told.
func lostDrafts(rows ...journal.Row) (drafts []journal.Draft) {
	for _, row := range rows {
		claim := lostClaim(row)
		drafts = append(
			drafts,
			journal.Draft{Job: row.Job, Payload: claim},
			journal.Draft{Job: row.Job, Payload: journal.Running{Attempt: board.First(claim), Token: row.Owner}},
		)
	}
	return drafts
}

// whyLost is why the journal does not know a claim of this worker.
func (w *Worker) whyLost() string {
	if w.fresh {
		return "the journal that knew it was lost"
	}
	return "the journal does not know its claim"
}

// knowsEnd tells whether the journal's history has the end of a row's claim: then the row is
// behind, and not lost.
func (w *Worker) knowsEnd(ctx context.Context, row journal.Row) bool {
	if w.Knows == nil || !w.Knows(ctx, row.Job, row.Owner) {
		return false
	}
	w.Logger.Error("a row is behind what the journal knows of its job, and is left alone; journal diff and reapply mend it",
		"job", row.Job, "target", row.Target, "status", row.Status)
	return true
}
