package board

import "time"

// mostParked is how many jobs of one target may be parked; or as many as it claims at once, if that
// is more.
const mostParked = 100

// Name is the target's name.
func (t *Target) Name() string { return t.name }

// Concurrency is how many jobs may run at once.
func (t *Target) Concurrency() int { return t.concurrency }

// Paused tells whether nothing of it is started or claimed.
func (t *Target) Paused() bool { return t.paused }

// Prefetched counts its jobs that wait for a slot: queued ones, and those that are parked.
func (t *Target) Prefetched() int { return t.in[Queued] + t.in[Parked] }

// Running counts its slots that are in use.
func (t *Target) Running() int { return t.active }

// PausedBy tells since when the target is paused, and on whose behalf. Who paused it again is not
// told.
func (t *Target) PausedBy() (since time.Time, by string) { return t.pausedSince, t.pausedBy }

// Open tells whether rows may be claimed for it at all.
func (t *Target) Open() bool { return !t.paused && !t.retiring && t.cant() == "" }

// RetiredBy is on whose behalf it is removed as soon as it is empty; "" where it stays.
func (t *Target) RetiredBy() string { return t.retiredBy }

// Length counts its jobs: those that wait, hold a slot, are parked, or are to be given back.
func (t *Target) Length() int { return t.in[Queued] + t.in[Parked] + t.active + t.in[Leaving] }

// Unstarted counts its jobs whose start was not asked for yet.
func (t *Target) Unstarted() int {
	return t.Prefetched() + t.in[Reserved] + t.in[Due] + t.in[Announcing] + t.in[Announced] + t.in[Renewing]
}

// Parked counts its parked jobs.
func (t *Target) Parked() int { return t.in[Parked] }

// idle tells whether a job that came now would have a slot at once.
func (t *Target) idle() bool { return len(t.queue) == 0 && t.active < t.concurrency }

// Room is how many jobs to claim now: as many as there are free slots, and prefetch more (negative:
// one a slot). To claim in batches the prefetched ones are replenished when half of them are gone,
// not one by one.
func (t *Target) Room(prefetch int) int {
	if prefetch < 0 {
		prefetch = t.concurrency
	}
	if !t.Open() || t.Crowded(prefetch) || t.Behind() {
		return 0
	}
	free := t.concurrency - t.active
	if len(t.queue) >= max(free, 0)+(prefetch+1)/2 {
		return 0
	}
	return free + prefetch - len(t.queue)
}

// Crowded tells whether so many jobs are parked that no more are claimed.
func (t *Target) Crowded(prefetch int) bool {
	if prefetch < 0 {
		prefetch = t.concurrency
	}
	return t.in[Parked] >= max(mostParked, t.concurrency+prefetch)
}

// startable tells whether the next job of the queue may have a slot.
func (t *Target) startable() bool {
	return !t.paused && t.cant() == "" && len(t.queue) > 0 && t.active < t.concurrency
}

// pop takes the next job from the queue.
func (t *Target) pop() *Job {
	next := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	return next
}
