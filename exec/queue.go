package exec

import "jobd/journal"

// Why jobs are given back.
const (
	stoppedEarly = "the worker stopped before the start"
	targetPaused = "the target was paused"
	notServed    = "its target is not served any more"
)

// enqueue puts claimed jobs into the queues of their targets. A job that is not to be started here any more is given back.
// The lock is held.
func (w *Worker) enqueue(events []journal.Event) {
	for _, e := range events {
		accepted, ok := e.Payload.(journal.Accepted)
		if !ok {
			continue
		}
		delete(w.asides, e.Job)
		if w.jobs[e.Job] == nil { // else it has a slot already
			w.queueClaim(e.Job, accepted)
		}
	}
}

// queueClaim queues a job whose claim is won. The lock is held.
func (w *Worker) queueClaim(id int64, claim journal.Accepted) {
	j := w.newJob(id, claim, 1)
	served := w.targets[j.target.name] == j.target
	switch {
	case w.stopping:
		w.callOff(j, stoppedEarly)
	case !served:
		w.callOff(j, notServed)
	case j.target.paused && !claim.Manual:
		w.callOff(j, targetPaused)
	case !w.mayStart():
		w.callOff(j, w.hitch.text())
	default:
		w.put(j)
	}
}

// newJob makes a job that is on its way here. The lock is held.
func (w *Worker) newJob(id int64, claim journal.Accepted, attempt int) *job {
	t, served := w.targets[claim.Target]
	if !served {
		t = &target{name: claim.Target}
	}
	j := &job{id: id, target: t, claim: claim, attempt: attempt, waiter: w.waiters[id]}
	w.jobs[id] = j
	return j
}

// put queues a job and starts what can be started. The lock is held.
func (w *Worker) put(j *job) {
	j.move(queued)
	j.target.queue = append(j.target.queue, j)
	w.dispatch(j.target)
}

// dispatch gives free slots to jobs, which the next turn announces. The lock is held.
func (w *Worker) dispatch(t *target) {
	for !w.stopping && w.mayStart() && t.startable() {
		j := t.pop()
		w.takeSlot(j, due)
		w.inbox.due = append(w.inbox.due, j)
		w.nudgeTurn()
	}
	if t.room(w.Prefetch) > 0 {
		w.wake()
	}
}

// takeSlot gives a job a slot. The lock is held.
func (w *Worker) takeSlot(j *job, to phase) {
	j.move(to)
	j.slotted, j.freed = true, false
	j.target.active++
	w.running.add()
	w.probeWith(j)
}

// free takes a job's slot from it. The lock is held.
func (w *Worker) free(j *job) {
	if !j.freed {
		j.freed = true
		j.target.active--
		w.probedInVain(j)
	}
}

// drop takes a job that has a slot out of the worker without an outcome. The journal says
// already what became of it. The lock is held.
func (w *Worker) drop(j *job, why string) {
	if j.waiter != nil {
		j.waiter.refuse(j.id, why)
	}
	w.free(j)
	w.leave(j)
}

// leave takes a job that had a slot out of the worker. The lock is held.
func (w *Worker) leave(j *job) {
	w.forget(j)
	w.dispatch(j.target)
	w.retire(j.target)
	w.running.done()
}

// forget takes a job out of memory. Where its row was passed over meanwhile, its target polls. The lock is held.
func (w *Worker) forget(j *job) {
	delete(w.jobs, j.id)
	j.settleAsked()
	w.unskip(j.id)
}

// unskip has the target of a row that was passed over poll, now that nothing is in its way here. The lock is held.
func (w *Worker) unskip(id int64) {
	if t, skipped := w.skipped[id]; skipped {
		delete(w.skipped, id)
		w.poll([]*target{t})
	}
}

// holds tells whether a job is under way here. The lock is held.
func (w *Worker) holds(id int64) bool {
	_, doubtful := w.doubtful[id]
	_, claimed := w.jobs[id]
	return claimed || doubtful
}
