package exec

import (
	"context"
	"errors"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// One goroutine claims. It is woken when something was asked for or a slot is free, and by one
// timer for all that was put off: polls, looks behind somebody's locks, rows that were set aside,
// claims in doubt. An outage of the whole table it waits out; anything else concerns some rows or
// some targets, which wait by themselves.

// claims is what only the claim loop knows.
type claims struct {
	poll    time.Time     // the next poll that nobody asks for; zero: none
	taken   time.Time     // when it was last seen to what was due
	away    bool          // the mirror could not write when a claim was last wanted
	names   board.Backoff // of the question whether the table takes the targets' names
	survey  survey
	strays  strays
	suspect bool // the last claim was for a target that is claimed for by itself
}

// renew has everything looked at again that may have changed while the table was out of reach.
func (c *claims) renew() { c.survey, c.strays = survey{wanted: true}, strays{} }

// renew polls, and looks at everything again that may have changed while the table was out of
// reach.
func (w *Worker) renew() {
	w.claims.renew()
	w.mu.Lock()
	w.identity.checked = time.Time{}
	w.namesDue = true
	w.mu.Unlock()
	w.PollAll()
}

// claimLoop claims whenever there is room, until ctx ends.
func (w *Worker) claimLoop(ctx context.Context) {
	w.claims.poll = w.nextPoll(time.Now())
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for ctx.Err() == nil && w.err() == nil {
		works(w.ClaimPulse, func() { alarm.Reset(w.nextAlarm(time.Now())) })
		select {
		case <-ctx.Done():
		case <-w.claimKnock:
			w.comeRound(w.ClaimPulse)
		case <-alarm.C:
			if !w.onlyClocks(time.Now()) {
				w.claimAll(ctx)
			}
		case <-w.claims.survey.tried:
			w.claims.survey.tried, w.claims.survey.rest.Due = nil, time.Time{}
			w.claimAll(ctx)
		case <-w.nudge:
			w.claimAll(ctx)
		}
	}
}

// claimAll claims until there is no room or no row left.
func (w *Worker) claimAll(ctx context.Context) {
	retry, failed := w.Retry("claim jobs"), error(nil)
	for ctx.Err() == nil && w.err() == nil {
		over := w.watchClaim()
		more, err := w.claimOnce(ctx)
		over(err)
		switch {
		case err != nil:
			failed = err
			w.noteOutage(err)
			if retry.Wait(ctx, err) != nil {
				return
			}
		case failed != nil: // the table is back: others may have asked in vain meanwhile
			retry.Over()
			if failed = nil; w.noteOutage(nil) {
				w.renew()
			}
		case !more:
			return
		}
	}
}

// noteOutage notes why nothing is claimed at all; nil when something is. It tells whether that was
// otherwise before.
func (w *Worker) noteOutage(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outage.note(err, time.Now())
}

// claimOnce settles what was left behind and is due, then claims for targets that have room. Its
// errors are those that concern everything: the table is away, or the disk full.
func (w *Worker) claimOnce(ctx context.Context) (more bool, err error) {
	works(w.ClaimPulse, func() { w.takeDue(time.Now()) })
	for _, settle := range []func(context.Context) error{w.resolve, w.checkNames, w.probe} {
		if err := settle(ctx); err != nil {
			return false, err
		}
	}
	if known, err := w.identified(ctx); err != nil || !known {
		return false, err
	}
	for _, look := range []func(context.Context) error{w.takeSurvey, w.watchStrays} {
		if err := look(ctx); err != nil {
			return false, err
		}
	}
	return w.claim(ctx)
}

// takeDue polls for the targets for which that is due, and ends rests.
func (w *Worker) takeDue(now time.Time) {
	w.claims.taken = now
	if c := &w.claims; !c.poll.IsZero() && !now.Before(c.poll) {
		c.poll = w.nextPoll(now)
		w.PollAll()
	}
	w.claims.names.Passed(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.identity.rest.Passed(now)
	w.follow(w.board.LookDue(now))
	for _, t := range w.targets {
		t.trouble.rest.Passed(now)
		if t.look.Passed(now) {
			t.polls++
		}
		if t.sweep.rest.Passed(now) {
			w.sweepAgain(t)
		}
	}
	w.takeDues(now)
}

// idle is how long the loop sleeps at most.
const idle = time.Hour

// untilDue is the time until the first thing that was put off is due.
func (w *Worker) untilDue(now time.Time) time.Duration {
	first := now.Add(idle)
	at := func(due time.Time) {
		if !due.IsZero() && due.Before(first) {
			first = due
		}
	}
	at(w.claims.poll)
	at(w.claims.names.Due)
	w.mu.Lock()
	defer w.mu.Unlock()
	at(w.identity.rest.Due)
	at(w.board.NextLook())
	at(w.board.NextDoubt())
	at(w.untilDues(now))
	if !w.identity.checked.IsZero() {
		at(w.claims.survey.rest.Due)
		at(w.claims.strays.due)
	}
	for _, t := range w.targets {
		at(t.look.Due)
		at(t.trouble.rest.Due)
		at(t.sweep.rest.Due)
		if t.wanted() { // what has come into hand since then is due, too
			at(t.bucket.due(t.Unstarted(), w.claims.taken))
		}
	}
	paced := w.pacedUntil(now)
	for _, a := range w.asides {
		if a.rest.Due.Before(paced) && !a.trusted {
			at(paced)
		} else {
			at(a.rest.Due)
		}
	}
	return max(first.Sub(now), 0)
}

// concernsAll tells whether an error is not about some rows or some targets.
func concernsAll(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || isAway(err) || errors.Is(err, journal.ErrFull))
}

// isAway tells whether an error says that the whole table is out of reach, see Claimer.
func isAway(err error) bool {
	var known interface{ Away() bool }
	return errors.As(err, &known) && known.Away()
}

// undone tells whether a claim that failed is known not to have happened, see Claimer.
func undone(err error) bool {
	var known interface{ Undone() bool }
	return errors.As(err, &known) && known.Undone()
}

// passing tells whether an error is nothing that is wrong, see Claimer.
func passing(err error) bool {
	var known interface{ Passing() bool }
	return errors.As(err, &known) && known.Passing()
}

// refusedRows tells which rows the table does not let us claim, see Claimer.
func refusedRows(err error) map[int64]string {
	var known interface{ Refused() map[int64]string }
	if errors.As(err, &known) {
		return known.Refused()
	}
	return nil
}
