package board

import (
	"slices"
	"time"
)

// Where nobody has said how many jobs to claim beyond the free slots, claims follow what a target gets
// through: two slots of short jobs would otherwise cost a transaction for every second row. A worker
// claims ahead only while the target's jobs have shown to be short. It claims one row a slot then, and
// while there is no end of rows what it gets through in aheadTime, at most twice as much as before.
// Rows that it does not reach within lateTime after all it gives back, because another worker may have
// a slot for them, and claims nothing ahead until jobs are short again.
const (
	aheadTime = 100 * time.Millisecond
	lateTime  = time.Second
	shortTime = lateTime / 4 // jobs take that on average, or less: so those that vary are reached, too
	averaged  = 8            // the newest job counts for one in so many
)

// pace is what claims and ends have shown of a target.
type pace struct {
	at    time.Time     // of the last claim; zero: there was none
	full  bool          // it took as many rows as it had room for
	ended int           // jobs of the target that had ended by then
	ahead int           // jobs that the target gets through in aheadTime; 0: not known
	takes time.Duration // how long a job has its slot, on average; 0: not known, which counts as long
	waits time.Time     // of the last claim, or when jobs were first seen to wait for a slot; zero: none does
}

// Claimed notes a claim for a target whose claims follow what it gets through. full says that the claim
// took as many rows as it had room for.
func (t *Target) Claimed(full bool, now time.Time) {
	last := t.pace
	t.pace = pace{at: now, full: full, ended: t.ended, takes: last.takes, waits: now}
	if passed := now.Sub(last.at); full && last.full && passed > 0 {
		through := int64(t.ended-last.ended) * int64(aheadTime) / int64(passed)
		t.pace.ahead = min(int(through), 2*max(t.concurrency, last.ahead))
	}
}

// took notes how long a job had its slot.
func (p *pace) took(d time.Duration) {
	if p.takes == 0 {
		p.takes = lateTime
	}
	p.takes += (max(d, 0) - p.takes) / averaged
}

// prefetch is how many jobs are claimed beyond the free slots.
func (t *Target) prefetch() int {
	if t.pace.takes == 0 || t.pace.takes > shortTime {
		return 0
	}
	return max(t.concurrency, t.pace.ahead)
}

// Late is when jobs are given back that wait for a slot still; zero: there are none.
func (t *Target) Late() time.Time {
	if t.pace.waits.IsZero() || !slices.ContainsFunc(t.queue, ahead) {
		return time.Time{}
	}
	return t.pace.waits.Add(lateTime)
}

// ahead tells of a job in a queue that it was claimed ahead, and may go to another worker.
func ahead(j *Job) bool { return !j.claim.Manual && j.mayLeave() }

// notReached is why jobs are given back that were claimed ahead.
const notReached = "it was claimed ahead, and the jobs before it take longer than expected"

// GiveBackLate has jobs given back that were claimed ahead and not reached, but those that can't be taken
// elsewhere. While the table is away nobody else can take any: their time begins anew.
func (b *Board) GiveBackLate(now time.Time, away bool) Effects {
	for _, t := range b.targets {
		switch waiting := slices.ContainsFunc(t.queue, ahead); {
		case !waiting:
			t.pace.waits = time.Time{}
		case away || t.pace.waits.IsZero(): // or a former process of the worker has claimed them
			t.pace.waits = now
		case !now.Before(t.Late()):
			t.pace = pace{}
			queue := t.queue
			t.queue = nil
			for _, j := range queue {
				if ahead(j) {
					b.giveBack(j, notReached)
				} else {
					t.queue = append(t.queue, j)
				}
			}
		}
	}
	return b.follow()
}
