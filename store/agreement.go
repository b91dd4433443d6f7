package store

import (
	"fmt"
	"strings"
	"time"

	"jobd/journal"
)

// This file judges a row by what the journal says of its job, after a table went back in time: a
// backup that was restored, or a replica that lagged and took the place of its primary.

// Agrees tells whether a row says what the journal says.
func Agrees(job journal.Job, row *Seen) bool {
	switch job.Status {
	case journal.StatusNone, journal.StatusConflict: // the journal says itself that somebody else has it
		return true
	case journal.StatusPlanned: // it waited for its time, and nobody was to keep it from others
		return true
	case journal.StatusReleased: // it may be anybody's, but not ours
		return row == nil || !row.UnderWay() || !sameWorker(job.Token, row.Owner)
	case journal.StatusRetried: // the same, and not as it was before
		return row == nil || !notRetried(job, row) && (!row.UnderWay() || !sameWorker(job.Token, row.Owner))
	}
	if wentOn(job, row) {
		return true
	}
	want := Wanted(job)
	switch {
	case row == nil || row.Status != want.Status:
		return false
	case want.Status == journal.RowDone, want.Status == journal.RowDelayed:
		return row.Finished == want.Finished && row.Result == want.Result
	case want.Status == journal.RowRunning:
		return row.Owner == want.Owner && row.Started == want.Started
	case want.Status == journal.RowAccepted:
		return row.Owner == want.Owner
	}
	return true
}

// Wanted is what the row of a job has to say; nil where it is not the worker's.
func Wanted(job journal.Job) *Seen {
	row := &Seen{Row: journal.Row{Job: job.ID, Target: job.Target, Owner: job.Token}, Started: Seconds(job.Running.Time)}
	switch job.Status {
	case journal.StatusAccepted:
		row.Status = journal.RowAccepted
	case journal.StatusStarting, journal.StatusRunning:
		row.Status = journal.RowRunning
	case journal.StatusDone:
		row.Status, row.Owner = journal.RowDone, ""
		row.Finished, row.Result = Seconds(job.Ended), job.Result
		if again := job.Comes(); again != nil {
			row.Status = journal.RowDelayed
			row.Plan = &journal.Plan{RunAt: again.RunAt, PlannedAt: again.PlannedAt, Attempts: again.Attempts}
		}
	case journal.StatusIgnored:
		row.Status = journal.RowIgnored
	default:
		return nil
	}
	return row
}

// changeTo is the change that brings a row which bears the job's claim to what the journal says.
// Its status is empty where the claim itself has shown all there is. Callers add how a done job
// ended, with endAs.
func changeTo(job journal.Job) Change {
	change := Change{Job: job.ID, target: job.Target, Token: job.Token, Accepted: job.Accepted.Time, Start: job.Running.Time, Attempts: int64(job.Attempt)}
	switch job.Status {
	case journal.StatusStarting, journal.StatusRunning:
		change.Status = journal.RowRunning
	case journal.StatusDone:
		change.Status, change.Finish = journal.RowDone, job.Ended
		if job.Comes() != nil {
			change.Status = journal.RowDelayed
		}
	case journal.StatusIgnored:
		if job.Token != "" { // else nobody claimed it, and its row bears nothing of ours
			change.cancel(job.Reason)
		}
	}
	return change
}

// AnotherJob is why a row is left alone that was created later than the journal's claim of its id.
const AnotherJob = "it was created after the journal's claim: another job with the same id"

// notRetried tells whether a row reads as it did before its job was retried.
func notRetried(job journal.Job, row *Seen) bool {
	of := job.Retried
	return of != nil && row.Status == of.From && row.Finished == of.Finished && row.Result == of.Result
}

// Refusal tells why the journal's story does not go on from what the row says; "" where it does.
// The claim of the row is stale where the row bears an earlier one of the same job, or is delayed
// and reads as an earlier one has found it.
func Refusal(job journal.Job, row *Seen, stale bool) string {
	switch {
	case row == nil:
		return "there is no such row, and rows are never inserted"
	case IsAnotherJob(job, row):
		return AnotherJob
	case job.Target != "" && row.Target != job.Target:
		return fmt.Sprintf("its target is '%s', the journal knows it as '%s'", row.Target, job.Target)
	case job.Status == journal.StatusRetried && notRetried(job, row):
		return "it is as it was before it was retried: retry it once more"
	case row.Status == journal.RowDone:
		return "it is done otherwise than the journal says"
	case row.Status == journal.RowIgnored:
		return "it is ignored, and the journal does not say so"
	case row.UnderWay() && row.Owner != job.Token && !stale:
		return fmt.Sprintf("it bears '%s', which is no claim of this journal", row.Owner)
	case row.UnderWay() && job.Status == journal.StatusIgnored && job.Token == "" && !stale:
		return "it is under way, and the journal knows no claim of it"
	case row.UnderWay():
		return ""
	case row.Status == journal.RowDelayed && row.Plan == nil:
		return "it is delayed, and no columns of such rows are used"
	case row.Status == journal.RowDelayed && job.Status != journal.StatusIgnored && !stale && !AsFound(job, row.Plan, row.Finished):
		return wentOnElsewhere
	case job.Status != journal.StatusIgnored && job.Manual != (row.Status == journal.RowManual):
		return fmt.Sprintf("it is %s, unlike the row that the journal claimed", row.Status)
	case isSetBack(job, journal.Row{Status: row.Status, Finished: row.Finished}):
		return setBack
	}
	return ""
}

// setBack is why a row is left alone that waits again although the journal says how it ended.
const setBack = "it was set back by hand after the journal's claim, or retried: time_finished says so"

// isSetBack tells whether a row that waits was set back after the job was claimed, or ignored. It
// keeps the time of its last end until the next one, so that every worker that knows an earlier end
// of the job sees that. A delayed row has ended before, as often as it came back: of it the plan
// tells whether a claim is about that run (AsFound), and the time only whether it ran since it was
// ignored.
func isSetBack(job journal.Job, row journal.Row) bool {
	if row.Status == journal.RowDelayed {
		return job.Status == journal.StatusIgnored && row.Finished > 0 && row.Finished >= Seconds(job.Ended)
	}
	return row.Finished > 0 && row.Finished >= Seconds(job.Accepted.Time)
}

// IsAnotherJob tells whether a row was created later than the job was claimed, or ignored; not in
// the same second. A row that bears the claim's token is the one that was claimed, whatever the
// clocks say.
func IsAnotherJob(job journal.Job, row *Seen) bool {
	if row != nil && row.UnderWay() && row.Owner == job.Token {
		return false
	}
	claimed := job.Accepted.Time
	if claimed.IsZero() && job.Status == journal.StatusIgnored {
		claimed = job.Ended
	}
	return row != nil && !claimed.IsZero() && row.Created > Seconds(claimed)
}

// UnderWay tells whether a worker has the row.
func (s *Seen) UnderWay() bool {
	return s.Status == journal.RowAccepted || s.Status == journal.RowRunning
}

// IsFree tells whether nobody has claimed a row, and it has not ended. A table that uses nothing of
// time has no delayed rows, whatever an application calls so.
func IsFree(row journal.Row) bool {
	return row.Status == journal.RowWaiting || row.Status == journal.RowManual || row.Status == journal.RowDelayed && row.Plan != nil
}

// sameWorker tells whether two tokens are of claims of one worker.
func sameWorker(a, b string) bool {
	return len(a) > workerPrefixLength && strings.HasPrefix(b, a[:workerPrefixLength])
}

// Seconds is a time as the table has it: unix seconds, 0 for none.
func Seconds(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

// giveBack is the change that gives a row back which bears a claim of the job.
func giveBack(job journal.Job, row *Seen) Change {
	change := Change{Job: job.ID, target: job.Target, Token: row.Owner}
	change.giveBack(job)
	if job.Status == journal.StatusRetried {
		change.Plan = &journal.Plan{} // the retry began a new run
	}
	return change
}

// payloadOf is the payload that claims a job's row once more, or ignores it.
func payloadOf(job journal.Job) journal.Payload {
	if job.Status == journal.StatusIgnored {
		ignored := journal.Ignored{Reason: job.Reason}
		if job.Cancelled != nil {
			ignored.By = job.Cancelled.By
		}
		return ignored
	}
	return journal.Accepted{
		Target: job.Target, Manual: job.Manual, Token: job.Token, From: job.From, Plan: job.Plan, PlannedAt: job.PlannedAt,
	}
}

// Rows that come back are judged here: workers share them over time, so a row may be further than
// the journal of any one of them.

// wentOnElsewhere is why a delayed row is left alone that is at another run than the journal knows.
const wentOnElsewhere = "it has moved on: it waits for a run that the journal does not know"

// wentOn tells whether a row that was to come back did, and is none of this worker's any more:
// another worker has run it since, or has it now, or somebody has changed it.
func wentOn(job journal.Job, row *Seen) bool {
	if job.Comes() == nil || row == nil || row.UnderWay() && sameWorker(job.Token, row.Owner) {
		return false
	}
	ended := Seconds(job.Ended)
	return row.Finished > ended || row.Finished == ended && row.Status != journal.RowDelayed
}

// AsFound tells whether a delayed row, with that plan and time_finished, reads as the job's claim has
// found it: as on a replica that lagged, or in a backup. One of which nobody has planned anything yet
// says so too when its schedule was edited since; then the time of its last end tells.
func AsFound(job journal.Job, plan *journal.Plan, finished int64) bool {
	if job.From != journal.RowDelayed || !SameRun(job.Plan, plan) {
		return false
	}
	return plan.RunAt != 0 || plan.PlannedAt != 0 || finished == 0 || finished < Seconds(job.Accepted.Time)
}

// Shows tells whether a row bears a job's claim, or is delayed and reads as that has found it.
func Shows(job journal.Job, row *Seen) bool {
	if row.UnderWay() {
		return row.Owner != "" && row.Owner == job.Token
	}
	return row.Status == journal.RowDelayed && AsFound(job, row.Plan, row.Finished)
}

// SameRun tells whether two delayed rows wait for the same attempt of the same run.
func SameRun(a, b *journal.Plan) bool {
	return a != nil && b != nil && a.RunAt == b.RunAt && a.PlannedAt == b.PlannedAt && a.Attempts == b.Attempts
}

// endAs completes the change of a job that is done: how it ended, and what follows by what the
// journal says now.
func (c *Change) endAs(job journal.Job, done journal.Done) {
	done.Again = job.Comes()
	c.Done = &done
}
