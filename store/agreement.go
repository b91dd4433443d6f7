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
	row := &Seen{Row: journal.Row{Job: job.ID, Target: job.Target, Owner: job.Token}, Started: seconds(job.Running)}
	switch job.Status {
	case journal.StatusAccepted:
		row.Status = journal.RowAccepted
	case journal.StatusStarting, journal.StatusRunning:
		row.Status = journal.RowRunning
	case journal.StatusDone:
		row.Status, row.Owner = journal.RowDone, ""
		row.Finished, row.Result = seconds(job.Ended), job.Result
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

// ChangeTo is the change that brings a row which bears the job's claim to what the journal says.
// Its status is empty where the claim itself has shown all there is. Callers add how a done job
// ended, with EndAs.
func ChangeTo(job journal.Job) Change {
	change := Change{Job: job.ID, target: job.Target, Token: job.Token, Accepted: job.Accepted, Start: job.Running, Attempts: int64(job.Attempt)}
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
		return fmt.Sprintf("it is %s, and the journal's claim was of the other kind", row.Status)
	case IsSetBack(job, journal.Row{Status: row.Status, Finished: row.Finished}):
		return setBack
	}
	return ""
}

// setBack is why a row is left alone that waits again although the journal says how it ended.
const setBack = "it was set back by hand after the journal's claim, or retried: time_finished says so"

// IsSetBack tells whether a row that waits was set back after the job was claimed, or ignored. It
// keeps the time of its last end until the next one, so that every worker that knows an earlier end
// of the job sees that. A delayed row has ended before, as often as it came back: of it the plan
// tells whether a claim is about that run (AsFound), and the time only whether it ran since it was
// ignored.
func IsSetBack(job journal.Job, row journal.Row) bool {
	if row.Status == journal.RowDelayed {
		return job.Status == journal.StatusIgnored && row.Finished > 0 && row.Finished >= seconds(job.Ended)
	}
	return row.Finished > 0 && row.Finished >= seconds(job.Accepted)
}

// IsAnotherJob tells whether a row was created later than the job was claimed, or ignored; not in
// the same second. A row that bears the claim's token is the one that was claimed, whatever the
// clocks say.
func IsAnotherJob(job journal.Job, row *Seen) bool {
	if row != nil && row.UnderWay() && row.Owner == job.Token {
		return false
	}
	claimed := job.Accepted
	if claimed.IsZero() && job.Status == journal.StatusIgnored {
		claimed = job.Ended
	}
	return row != nil && !claimed.IsZero() && row.Created > seconds(claimed)
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
	return len(a) > markLength && strings.HasPrefix(b, a[:markLength])
}

// seconds is a time as the table has it.
func seconds(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

// GiveBack is the change that gives a row back which bears a claim of the job.
func GiveBack(job journal.Job, row *Seen) Change {
	change := Change{Job: job.ID, target: job.Target, Token: row.Owner, Status: journal.RowWaiting}
	change.Plan = job.Plan
	switch {
	case job.Manual:
		change.Status = journal.RowManual
	case job.From == journal.RowDelayed:
		change.Status = journal.RowDelayed
	}
	if job.Status == journal.StatusRetried {
		change.Plan = &journal.Plan{} // the retry began a new run
	}
	return change
}

// ClaimOf is the payload that claims a job's row once more, or ignores it.
func ClaimOf(job journal.Job) journal.Payload {
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
