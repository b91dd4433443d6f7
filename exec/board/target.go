package board

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"jobd/journal"
)

// Name is the target's name.
func (t *Target) Name() string { return t.name }

// Concurrency is how many jobs may run at once.
func (t *Target) Concurrency() int { return t.concurrency }

// Paused tells whether nothing of it is started or claimed.
func (t *Target) Paused() bool { return t.paused }

// Prefetched counts its jobs that wait for a slot.
func (t *Target) Prefetched() int { return t.in[Queued] }

// Running counts its slots that are in use.
func (t *Target) Running() int { return t.active }

// PausedBy tells since when the target is paused, and on whose behalf. It does not tell who paused it
// again.
func (t *Target) PausedBy() (since time.Time, by string) { return t.pausedSince, t.pausedBy }

// Open tells whether rows may be claimed for it at all.
func (t *Target) Open() bool { return !t.paused && t.starter.open(false) }

// Starter is what starts its jobs.
func (t *Target) Starter() *Starter { return t.starter }

// Length counts its jobs: those that wait, hold a slot, or wait to be given back.
func (t *Target) Length() int { return t.in[Queued] + t.active + t.in[Leaving] }

// Unstarted counts its jobs whose start was not asked for yet.
func (t *Target) Unstarted() int {
	return t.Prefetched() + t.in[Reserved] + t.in[Due] + t.in[Announcing] + t.in[Announced] + t.in[Renewing]
}

// idle tells whether a job that came now would have a slot at once.
func (t *Target) idle() bool { return len(t.queue) == 0 && t.active < t.concurrency }

// Room is how many jobs to claim now: as many as there are free slots, and prefetch more (negative: as
// the target's pace allows). To claim in batches the prefetched ones are replenished when half of them
// are gone, not one by one.
func (t *Target) Room(prefetch int) int {
	if !t.Open() || t.behind() {
		return 0
	}
	if prefetch < 0 {
		prefetch = t.prefetch()
	}
	if t.starter.why != "" && t.idle() {
		return 1 // the trial
	} else if t.starter.why != "" {
		return 0
	}
	free := t.concurrency - t.active
	if len(t.queue) >= max(free, 0)+(prefetch+1)/2 {
		return 0
	}
	return free + prefetch - len(t.queue)
}

// startable tells whether the next job of the queue may have a slot.
func (t *Target) startable() bool {
	return !t.paused && len(t.queue) > 0 && t.active < t.concurrency && t.starter.open(t.queue[0].claim.Manual)
}

// pop takes the next job from the queue.
func (t *Target) pop() *Job {
	next := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	return next
}

// Add makes a target served. Jobs of a former run that are under way go on as its own.
func (b *Board) Add(name string, concurrency int) *Target {
	b.added++
	t := b.targetOf(name)
	b.equip(t)
	t.concurrency, t.since = concurrency, b.added
	t.paused, t.pausedSince, t.pausedBy = false, time.Time{}, ""
	b.targets[name] = t
	delete(b.unserved, name)
	return t
}

// serves tells whether jobs of a target are started.
func (b *Board) serves(name string) bool { return b.targets[name] != nil }

func (b *Board) servesFor(j *Job) bool { return b.targets[j.target.name] == j.target }

// Remove makes a target served no more. What runs goes on; what has not started is given back.
func (b *Board) Remove(t *Target) Effects {
	delete(b.targets, t.name)
	if t.Length() > 0 {
		b.unserved[t.name] = t
		b.takeBackAll(t)
	}
	return b.follow()
}

// SetConcurrency changes how many jobs of a target may run at once. What runs goes on.
func (b *Board) SetConcurrency(t *Target, concurrency int) Effects {
	t.concurrency = concurrency
	b.dispatch(t)
	return b.follow()
}

// Pause pauses targets, whose jobs that have not started are taken back. It tells since when, and
// on whose behalf.
func (b *Board) Pause(targets []*Target, since time.Time, by string) Effects {
	for _, t := range targets {
		if !t.paused {
			t.paused, t.pausedSince, t.pausedBy = true, since, by
		}
	}
	for _, t := range targets {
		b.takeBackAll(t)
	}
	return b.follow()
}

// Continue ends the pause of targets.
func (b *Board) Continue(targets []*Target) Effects {
	for _, t := range targets {
		t.paused, t.pausedSince, t.pausedBy = false, time.Time{}, ""
	}
	for _, t := range targets {
		b.dispatch(t)
	}
	return b.follow()
}

// Stop has nothing started any more: what has not started is given back.
func (b *Board) Stop() Effects {
	b.stopping = true
	for _, t := range b.targets {
		b.takeBackAll(t)
	}
	return b.follow()
}

// newJob makes a job, which the caller moves to its first phase.
func (b *Board) newJob(id int64, claim journal.Accepted, attempt int) *Job {
	j := &Job{id: id, target: b.targetOf(claim.Target), claim: claim, attempt: attempt}
	b.jobs[id] = j
	return j
}

// targetOf is the target of a name. Jobs may be of one that is not served any more: they end, or
// leave. Where it is added meanwhile, they hold slots of it.
func (b *Board) targetOf(name string) *Target {
	if t, served := b.targets[name]; served {
		return t
	}
	t, known := b.unserved[name]
	if !known {
		t = &Target{name: name}
		b.equip(t)
		b.unserved[name] = t
	}
	return t
}

// takeIn queues a new job. One that is not to be started here any more is given back, where it can be.
func (b *Board) takeIn(j *Job) {
	if why := b.blocked(j); why != "" && j.mayLeave() {
		b.giveBack(j, why)
		return
	}
	b.enqueue(j)
	b.dispatch(j.target)
}

// enqueue puts a job behind all that wait; enqueueFirst before them.
func (b *Board) enqueue(j *Job) {
	b.move(j, Queued)
	j.target.queue = append(j.target.queue, j)
}

func (b *Board) enqueueFirst(j *Job) {
	b.move(j, Queued)
	j.target.queue = slices.Insert(j.target.queue, 0, j)
}

// dispatch gives a target's free slots to the next of its jobs, which the next turn announces. It also wakes
// the claim loop, because the target may have more room for claims than before.
func (b *Board) dispatch(t *Target) {
	for !b.stopping && t.startable() {
		b.due(t.pop())
	}
	b.effects.Wake = true
}

// due has the next turn announce a job.
func (b *Board) due(j *Job) {
	b.move(j, Due)
	b.inbox.due = append(b.inbox.due, j)
	b.effects.Turn = true
}

// remove takes a job off the board: the journal has its end, or the next start takes it up. What
// waited for its slot or its end is next.
func (b *Board) remove(j *Job) {
	b.move(j, Gone)
	b.unskip(j.id)
	b.dispatch(j.target)
}

// drop takes a job off the board without an outcome. The journal says already what became of it.
func (b *Board) drop(j *Job, why string) {
	b.refuse(j.id, why)
	b.remove(j)
}

// unskip has the target of a row that was passed over look at the table: nothing is in the row's
// way here any more.
func (b *Board) unskip(id int64) {
	if t, skipped := b.skipped[id]; skipped {
		delete(b.skipped, id)
		b.effects.Poll = append(b.effects.Poll, t.name)
	}
}

// Why jobs are given back.
const (
	stoppedEarly = "the worker stopped before the start"
	targetPaused = "the target was paused"
	notServed    = "its target is not served any more"
)

// leftToNext is why a job that was started before is not, when the worker stops.
const leftToNext = "the worker is stopping; the next start takes it up"

// giveBack has the next turn give a job back that was not started. Until its release is journalled
// it stays on the board, and is waited for like any job, so that a full disk delays a release and
// loses none.
func (b *Board) giveBack(j *Job, reason string) {
	b.move(j, Leaving)
	j.reason = reason
	b.inbox.leaving = append(b.inbox.leaving, j)
	b.effects.Turn = true
}

// blocked gives the reason why a job must not be started now; "": it may be. A job that can be given back
// is given back for this reason.
func (b *Board) blocked(j *Job) string {
	switch {
	case b.stopping:
		return stoppedEarly
	case !b.servesFor(j):
		return notServed
	case j.target.paused && !j.claim.Manual:
		return targetPaused
	}
	return j.target.starter.whyNot(j)
}

// stays tells whether a job is not to be started for now.
func (b *Board) stays(j *Job) bool {
	return b.stopping || !b.servesFor(j) || j.target.paused || j.target.starter.whyNot(j) != ""
}

// takeBack stops a job that was not started, because its target is paused, nothing can start it, or
// the worker stops. A background job is given back. A manual one, which a client wants
// to be run here, waits in the queue, unless it can't be started anyway. So does one
// that was started before; of a target that is not served any more its outcome is unknown.
func (b *Board) takeBack(j *Job) {
	switch why := b.blocked(j); {
	case why != "" && j.mayLeave():
		b.giveBack(j, why)
	case b.stopping && j.phase == Queued: // the journal stays as it is, and the next start goes on from there
		b.move(j, Gone)
	case b.stopping:
		b.drop(j, leftToNext)
	case !b.servesFor(j):
		if j.phase != Queued {
			b.move(j, Queued)
		}
		b.move(j, Ended)
		b.end(ended{job: j, Outcome: Outcome{Fate: Unknown, Cause: errors.New(notServed)}})
	case j.phase == Queued:
		j.target.queue = append(j.target.queue, j)
	default:
		b.enqueueFirst(j)
	}
}

// takeBackAll stops everything of a target that was not started yet, because nothing of it should
// start now.
func (b *Board) takeBackAll(t *Target) {
	waiting := slices.Concat(t.queue, b.unstarted(t))
	t.queue = nil
	for _, j := range waiting {
		if b.stays(j) {
			b.takeBack(j)
		} else if j.phase == Queued {
			t.queue = append(t.queue, j)
		}
	}
	b.inbox.due = slices.DeleteFunc(b.inbox.due, func(j *Job) bool { return j.phase != Due })
}

// unstarted lists the jobs of a target that have a slot and wait for their start, the newest first.
func (b *Board) unstarted(t *Target) (jobs []*Job) {
	for _, j := range b.jobs {
		if j.target == t && j.Waits() && j.phase != Queued {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(one, other *Job) int { return cmp.Compare(other.id, one.id) })
	return jobs
}

// rateWindow is how many seconds back a target's rates look.
const rateWindow = 60

// Rates counts what has happened to jobs within the last minute.
type Rates struct {
	Started int
	Ended   int
	Failed  int // of those that ended
}

// second is what has happened in one second, since 1970.
type second struct {
	at int64
	Rates
}

// rated is where a target counts what happens now, in place of what happened a minute ago.
func (t *Target) rated(now time.Time) *Rates {
	s := &t.rates[now.Unix()%rateWindow]
	if s.at != now.Unix() {
		*s = second{at: now.Unix()}
	}
	return &s.Rates
}

// Rates is what has happened to the target's jobs within the last minute.
func (t *Target) Rates(now time.Time) (sum Rates) {
	for _, one := range t.rates {
		if age := now.Unix() - one.at; age >= 0 && age < rateWindow {
			sum.Started += one.Started
			sum.Ended += one.Ended
			sum.Failed += one.Failed
		}
	}
	return sum
}

// countStart counts that a job's process was started, once. What a former run of the worker has
// started was counted there.
func (j *Job) countStart(now time.Time) {
	if !j.counted {
		j.counted = true
		j.target.rated(now).Started++
	}
}

// countEnd counts how a job has ended. One that somebody has cancelled is no failure of its target's.
func (j *Job) countEnd(fine bool, now time.Time) {
	j.target.ended++
	if !j.began.IsZero() {
		j.target.pace.took(now.Sub(j.began))
	}
	r := j.target.rated(now)
	r.Ended++
	if !fine {
		r.Failed++
	}
}
