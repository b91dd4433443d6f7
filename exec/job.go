package exec

import (
	"slices"

	"jobd/journal"
)

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

// dispatch starts jobs while there are free slots. The lock is held.
func (w *Worker) dispatch(t *target) {
	for !w.stopping && t.startable() {
		t.active++
		w.running.Add(1)
		go w.slot(w.slotted(t.pop()))
	}
	if t.room(w.Prefetch) > 0 {
		w.wake()
	}
}

// take takes the next job of a target whose slot becomes free, nil where none may
// follow. The lock is held.
func (w *Worker) take(t *target) *job {
	if w.stopping || t.paused || len(t.queue) == 0 || t.active > t.concurrency {
		return nil
	}
	return w.slotted(t.pop())
}

// slotted marks a job as one that is about to be started. The lock is held.
func (w *Worker) slotted(j *job) *job {
	w.beginning.Add(1)
	j.begun = make(chan struct{})
	return j
}

// unslotted says that a job was started, or will not be.
func (w *Worker) unslotted(j *job) {
	w.beginning.Done()
	close(j.begun)
}

// putBack undoes take. The lock is held.
func (w *Worker) putBack(j *job) {
	w.unslotted(j)
	j.begun = nil
	j.target.queue = slices.Insert(j.target.queue, 0, j)
}

// drop takes a job out of the worker without an outcome.
func (w *Worker) drop(j *job, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave(j, nil)
	if j.waiter != nil {
		j.waiter.refuse(j.id, why)
	}
}

// leave gives the job's slot to the next one, or frees it. The lock is held.
func (w *Worker) leave(j, next *job) {
	delete(w.jobs, j.id)
	t := j.target
	if next == nil {
		t.active--
	}
	if t.skipped {
		t.skipped = false
		t.polls++
	}
	w.dispatch(t)
	w.retire(t)
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
