package board

import (
	"cmp"
	"fmt"
	"slices"
)

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

// hitched tells whether a job is not to be started now that it has a slot, or had one.
func (b *Board) hitched(j *Job) bool { return b.hitch != nil && b.hitch.probe != j }

// stays tells whether a job is not to be started for now.
func (b *Board) stays(j *Job) bool { return b.stopping || j.target.paused || b.whyNot(j) != "" }

// takeBack stops a job that was not started, because its target is paused, nothing can start it, or
// the worker stops. A background job is given back. A manual one, which a client wants
// to be run here, waits in the queue, or parked, unless it can't be started anyway. So does one
// that was started before.
func (b *Board) takeBack(j *Job) {
	switch {
	case b.stopping && j.mayLeave():
		b.giveBack(j, stoppedEarly)
	case b.stopping && j.phase == Queued: // the next start takes it up as what it is
		b.move(j, Gone)
	case b.stopping:
		b.drop(j, leftToNext)
	case j.mayLeave() && b.whyNot(j) != "":
		b.giveBack(j, b.whyNot(j))
	case j.mayLeave() && !j.claim.Manual:
		b.giveBack(j, targetPaused)
	case j.phase == Parked: // it goes on when its row shows it
	case j.phase == Queued:
		j.target.queue = append(j.target.queue, j)
		b.excuse(j)
	default:
		b.enqueueFirst(j)
		b.excuse(j)
	}
}

// takeBackAll stops everything of a target that was not started yet.
func (b *Board) takeBackAll(t *Target) {
	waiting := t.queue
	t.queue = nil
	for _, j := range waiting {
		b.takeBack(j)
	}
	for _, j := range b.unstarted(t) {
		b.takeBack(j)
	}
	b.inbox.due = slices.DeleteFunc(b.inbox.due, func(j *Job) bool { return j.phase != Due })
}

// unstarted lists the jobs of a target that wait for their start, with a slot or parked, the newest
// first.
func (b *Board) unstarted(t *Target) (jobs []*Job) {
	for _, j := range b.jobs {
		if j.target == t && (j.phase == Due || j.phase == Announced || j.phase == Parked || j.phase == Renewing) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(one, other *Job) int { return cmp.Compare(other.id, one.id) })
	return jobs
}

// excuse tells the client of a job that stays why it is not started for now.
func (b *Board) excuse(j *Job) {
	b.excuseAs(j, b.whyNot(j))
}

func (b *Board) excuseAs(j *Job, reason string) {
	if j.client != nil && reason != "" {
		why := fmt.Sprintf("job %d waits for its attempt %d: %s; its row will tell how it ended", j.id, j.attempt, reason)
		b.effects.Refusals = append(b.effects.Refusals, Refusal{Client: j.client, Job: j.id, Why: why, Whole: true})
	}
}
