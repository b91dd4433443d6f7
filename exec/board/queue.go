package board

import (
	"slices"

	"jobd/journal"
)

// newJob makes a job, which the caller moves to its first phase.
func (b *Board) newJob(id int64, claim journal.Accepted, attempt int) *Job {
	j := &Job{id: id, target: b.targetOf(claim.Target), claim: claim, attempt: attempt, client: b.clients[id]}
	b.jobs[id] = j
	return j
}

// targetOf is the target of a name. Jobs of a former run may be of one that is not served now: they
// end, or leave, and none is started. Where it is added meanwhile, they hold slots of it.
func (b *Board) targetOf(name string) *Target {
	if t, served := b.targets[name]; served {
		return t
	}
	t, known := b.unserved[name]
	if !known {
		t = &Target{name: name}
		b.unserved[name] = t
	}
	return t
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

// dispatch gives a target's free slots to the next of its jobs, which the next turn announces.
func (b *Board) dispatch(t *Target) {
	for !b.stopping && b.mayStart() && t.startable() {
		b.due(t.pop())
	}
	if !t.changed {
		t.changed = true
		b.effects.Changed = append(b.effects.Changed, t)
	}
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
	if _, now := b.Retired(j.target); now {
		b.effects.Empty = append(b.effects.Empty, j.target)
	}
}

// drop takes a job off the board without an outcome. The journal says already what became of it.
func (b *Board) drop(j *Job, why string) {
	b.refuse(j, why)
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

// Retired tells whether a target is to be removed now, and on whose behalf.
func (b *Board) Retired(t *Target) (by string, now bool) {
	return t.retiredBy, t.retiredBy != "" && t.Length() == 0 && !b.stopping && b.targets[t.name] == t
}
