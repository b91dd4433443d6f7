package exec

import "time"

// target is a queue of claimed jobs and the limit on how many of them run at once.
// It is guarded by the worker's mutex.
type target struct {
	name        string
	concurrency int
	since       int // targets are ordered by when they were added; 0 is the start
	paused      bool
	retiring    bool   // nothing is claimed for it any more
	retiredBy   string // who wants it removed as soon as it is empty; "" nobody
	queue       []*job
	active      int // jobs that hold a slot
	parked      int // jobs that have given up their slots until their rows can be updated
	leaving     int // jobs that are to be given back, until that is journalled
	starts      int // jobs that the runner is being asked to start at this moment
	polls       int // how often a poll was asked for
	polled      int // the poll that was last answered by an exhausted table

	unfit   string  // why the table can't hold the name, or takes it for another one; "" where it does not
	look    backoff // rows wait that somebody else's lock hid from a claim
	trouble trouble // of its claims
	sweep   sweep   // where there are too many refused rows to remember
}

// trouble is what is wrong with the claims of one target.
type trouble struct {
	failed int     // claims that failed, one after the other
	narrow int     // most rows of the next claim; 0: no limit of its own
	rest   backoff // until when nothing is claimed for it
	why    string  // in words for the operator; "" where nothing is wrong
}

// How long a target rests after a claim of it that failed.
const (
	firstRest = 20 * time.Millisecond
	longRest  = 10 * time.Second
)

// suspected tells whether claims for the target are made apart from those for others: two that failed may
// have been its fault.
func (t *trouble) suspected() bool { return t.failed >= 2 }

// length counts the jobs of the target, waiting, parked, running and leaving.
func (t *target) length() int { return len(t.queue) + t.parked + t.active + t.leaving }

// wanted tells whether the table may hold jobs that were not claimed yet.
func (t *target) wanted() bool { return t.polls > t.polled }

// room is how many jobs to claim now: as many as there are free slots, and
// prefetch more (negative: one a slot). To claim in batches the prefetched ones are
// replenished when half of them are gone, not one by one.
func (t *target) room(prefetch int) int {
	if t.paused || t.retiring || t.unfit != "" || !t.trouble.rest.due.IsZero() || !t.wanted() {
		return 0
	}
	if prefetch < 0 {
		prefetch = t.concurrency
	}
	if t.crowded(prefetch) {
		return 0
	}
	free := t.concurrency - t.active
	if len(t.queue) >= max(free, 0)+(prefetch+1)/2 {
		return 0
	}
	n := free + prefetch - len(t.queue)
	if t.trouble.narrow > 0 {
		n = min(n, t.trouble.narrow)
	}
	return n
}

// startable tells whether the next job of the queue may have a slot.
func (t *target) startable() bool {
	return !t.paused && len(t.queue) > 0 && t.active < t.concurrency
}

// pop takes the next job from the queue.
func (t *target) pop() *job {
	next := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	return next
}
