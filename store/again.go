package store

import "jobd/journal"

// This file judges rows that come back: workers share them over time, so a row may be further than
// the journal of any one of them.

// wentOnElsewhere is why a delayed row is left alone that is at another run than the journal knows.
const wentOnElsewhere = "it went on elsewhere since: it waits for another run than the journal knows"

// wentOn tells whether a row that was to come back did, and is none of this worker's any more:
// another worker has run it since, or has it now, or somebody has changed it.
func wentOn(job journal.Job, row *Seen) bool {
	if job.Comes() == nil || row == nil || row.UnderWay() && sameWorker(job.Token, row.Owner) {
		return false
	}
	ended := seconds(job.Ended)
	return row.Finished > ended || row.Finished == ended && row.Status != journal.RowDelayed
}

// AsFound tells whether a delayed row, with that plan and time_finished, reads as the job's claim has
// found it: as on a replica that lagged, or in a backup. One of which nobody has planned anything yet
// says so too when its schedule was edited since; then the time of its last end tells.
func AsFound(job journal.Job, plan *journal.Plan, finished int64) bool {
	if job.From != journal.RowDelayed || !SameRun(job.Plan, plan) {
		return false
	}
	return plan.RunAt != 0 || plan.PlannedAt != 0 || finished == 0 || finished < seconds(job.Accepted)
}

// SameRun tells whether two delayed rows wait for the same attempt of the same run.
func SameRun(a, b *journal.Plan) bool {
	return a != nil && b != nil && a.RunAt == b.RunAt && a.PlannedAt == b.PlannedAt && a.Attempts == b.Attempts
}

// EndAs completes the change of a job that is done: how it ended, and what follows by what the
// journal says now.
func (c *Change) EndAs(job journal.Job, done journal.Done) {
	done.Again = job.Comes()
	c.Done = &done
}
