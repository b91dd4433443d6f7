package board

import "time"

// Where nobody has said how many jobs to claim beyond the free slots, claims follow what a target gets
// through: two slots of short jobs would otherwise cost a transaction for every second row. A worker
// claims ahead only while there is no end of rows, no more than it gets through in aheadTime, and at
// most twice as much as before. Rows that it does not reach after all, because jobs take longer by
// now, it gives back after lateTime: another worker may have a slot for them.
const (
	aheadTime = 100 * time.Millisecond
	lateTime  = time.Second
)

// pace is what claims have shown of a target.
type pace struct {
	at    time.Time // of the last claim; zero: there was none, or what was late is given back
	full  bool      // it took as many rows as it had room for
	ended int       // jobs of the target that had ended by then
	ahead int       // jobs that the target gets through in aheadTime; 0: not known
}

// Claimed notes a claim for a target whose claims follow what it gets through. full says that the claim
// took as many rows as it had room for.
func (t *Target) Claimed(full bool, now time.Time) {
	last := t.pace
	t.pace = pace{at: now, full: full, ended: t.ended}
	if passed := now.Sub(last.at); full && last.full && passed > 0 {
		through := int64(t.ended-last.ended) * int64(aheadTime) / int64(passed)
		t.pace.ahead = min(int(through), 2*max(t.concurrency, last.ahead))
	}
}

// Late is when jobs of the queue are given back that the target has not reached; zero: there are none
// beside one a slot.
func (t *Target) Late() time.Time {
	if t.pace.at.IsZero() || len(t.queue) <= t.concurrency {
		return time.Time{}
	}
	return t.pace.at.Add(lateTime)
}

// notReached is why jobs are given back that were claimed ahead.
const notReached = "it was claimed ahead, and the jobs before it take longer than expected"

// GiveBackLate has jobs given back that were claimed ahead and not reached: all but one a slot, and but
// those that can't be taken elsewhere.
func (b *Board) GiveBackLate(now time.Time) Effects {
	for _, t := range b.targets {
		if late := t.Late(); late.IsZero() || now.Before(late) {
			continue
		}
		t.pace = pace{}
		queue := t.queue
		t.queue = nil
		for _, j := range queue {
			if len(t.queue) < t.concurrency || j.claim.Manual || !j.mayLeave() {
				t.queue = append(t.queue, j)
			} else {
				b.giveBack(j, notReached)
			}
		}
	}
	return b.follow()
}
