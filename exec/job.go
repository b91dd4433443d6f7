package exec

import "jobd/journal"

// stoppedEarly is why a job is given back when the worker stops.
const stoppedEarly = "the worker stopped before the start"

// enqueue puts claimed jobs into the queues of their targets. A job whose target
// is gone by now is given back.
func (w *Worker) enqueue(claims []journal.Event) error {
	var orphans []int64
	reason := "its target is not served any more"
	w.mu.Lock()
	if w.stopping {
		reason = stoppedEarly
	}
	for _, e := range claims {
		accepted, ok := e.Payload.(journal.Accepted)
		if !ok {
			continue
		}
		delete(w.doubtful, e.Job)
		if w.jobs[e.Job] != nil {
			continue // it has a slot already
		}
		t, served := w.targets[accepted.Target]
		if !served || w.stopping {
			orphans = append(orphans, e.Job)
			continue
		}
		w.put(&job{id: e.Job, target: t, attempt: 1, waiter: w.waiters[e.Job]})
	}
	w.mu.Unlock()
	return w.release(orphans, reason)
}

// put queues a job and starts what can be started. The lock is held.
func (w *Worker) put(j *job) {
	w.jobs[j.id] = j
	j.target.queue = append(j.target.queue, j)
	w.dispatch(j.target)
}

// dispatch gives free slots to jobs, which the next turn announces. The lock is held.
func (w *Worker) dispatch(t *target) {
	for !w.stopping && t.startable() {
		t.active++
		w.running.Add(1)
		j := t.pop()
		j.slotted = true
		w.inbox.due = append(w.inbox.due, j)
		w.nudgeTurn()
	}
	if t.room(w.Prefetch) > 0 {
		w.wake()
	}
}

// free takes a job's slot from it. The lock is held.
func (w *Worker) free(j *job) {
	if !j.freed {
		j.freed = true
		j.target.active--
	}
}

// drop takes a job that has a slot out of the worker without an outcome. The lock is held.
func (w *Worker) drop(j *job, why string) {
	if j.waiter != nil {
		j.waiter.refuse(j.id, why)
	}
	w.free(j)
	w.leave(j)
}

// leave takes a job that had a slot out of the worker. The lock is held.
func (w *Worker) leave(j *job) {
	delete(w.jobs, j.id)
	j.settleAsked()
	t := j.target
	if t.skipped {
		t.skipped = false
		t.polls++
	}
	w.dispatch(t)
	w.retire(t)
	w.running.Done()
}

// release journals that claims are given up. The mirror gives the rows back, where
// they bear the claim's token.
func (w *Worker) release(ids []int64, reason string) error {
	if len(ids) == 0 {
		return nil
	}
	drafts := make([]journal.Draft, len(ids))
	for i, id := range ids {
		drafts[i] = journal.Draft{Job: id, Payload: journal.Released{Reason: reason}}
	}
	if _, err := w.append(drafts...); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.doubtful, id)
		if client, waits := w.waiters[id]; waits && w.jobs[id] == nil {
			client.refuse(id, reason)
		}
	}
	return nil
}
