package board

import "jobd/journal"

// Ready is since when the job's row could have been claimed, in seconds since 1970: since it was
// made, was set back by hand, or was due, whichever came last. It is 0 where that is not known, and
// where nobody waited for a claim: the job was to be run by hand, or was started before by the same
// claim.
func (j *Job) Ready() int64 {
	if j.claim.Manual || j.recovered || j.claim.Created == 0 {
		return 0
	}
	ready := max(j.claim.Created, j.setBack)
	if plan := j.claim.Plan; plan != nil && j.claim.From == journal.RowDelayed {
		ready = max(ready, plan.RunAt)
	}
	return ready
}

// noteSetBack notes of a row that has ended before when that was: it was set back since.
func (c *Claim) noteSetBack(row journal.Row) {
	if row.Finished == 0 {
		return
	}
	if c.setBack == nil {
		c.setBack = make(map[int64]int64)
	}
	c.setBack[row.Job] = row.Finished
}
