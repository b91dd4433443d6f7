package board

import (
	"fmt"
	"time"

	"jobd/journal"
)

// RunRowNow is what is journalled of a delayed row that somebody wants to be run at once: it is due
// from now on. The planned start of its run stays, and so does the number of its attempts. now is what
// the clock of the table's server says.
func (b *Board) RunRowNow(row journal.Row, by string, now time.Time) (drafts []journal.Draft, refusal string) {
	switch {
	case b.stopping:
		return nil, "worker is stopping"
	case b.Holds(row.Job):
		return nil, fmt.Sprintf("job %d is still under way", row.Job)
	case row.Status != journal.RowDelayed:
		return nil, "status = " + row.Status + ": only what is delayed is run before its time"
	case row.Plan == nil:
		return nil, "nothing is known of when it is due"
	}
	to := journal.Again{RunAt: now.Unix(), PlannedAt: row.Plan.PlannedAt, Attempts: row.Plan.Attempts}
	switch {
	case to.Attempts > 0:
		to.Why = journal.AgainRetry
	case row.Plan.Schedule != "":
		to.Why = journal.AgainSchedule
	}
	return []journal.Draft{{Job: row.Job, Payload: journal.Planned{
		Target: row.Target, From: *row.Plan, To: to, Reason: "somebody wants it to run now", By: by,
	}}}, ""
}
