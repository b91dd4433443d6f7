package exec

import (
	"fmt"
	"slices"
	"time"
)

// A job that was announced, and whose row somebody has locked just then, or a rule of the table refuses, does not keep its
// slot for as long as that lasts: it is parked, and the next job of its target's queue has the slot. When its row
// says running, or the journal holds a conflict instead, it goes to the front of the queue, and is announced anew when
// a slot is free. Meanwhile it is as any job that was announced and not started: a pause or a stop gives it back.

const (
	parkAfter  = 300 * time.Millisecond // until an announced job whose row does not show it gives up its slot
	mostParked = 100                    // jobs of one target, or as many as it claims at once if that is more
)

// launchLate starts a job whose row is set aside for now.
func (w *Worker) launchLate(a announcement) {
	defer w.begun()
	shown := w.Mirror.Shown(a.seq, a.job.id)
	recall := w.recall(a)
	if recall == nil {
		return
	}
	grace := time.NewTimer(parkAfter)
	defer grace.Stop()
	if w.wait(shown, recall, grace.C) {
		w.startAll([]announcement{a})
		return
	}
	if recall = w.park(a); recall != nil && w.wait(shown, recall, nil) {
		w.unpark(a)
	}
}

// recall gives a channel that is closed when the job is not announced any more; nil where it is not now.
func (w *Worker) recall(a announcement) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.stands() {
		return nil
	}
	a.job.recall = make(chan struct{})
	return a.job.recall
}

// park takes its slot from a job that waits for its row, and gives a channel that is closed when it is not parked any more;
// nil where it does not wait any more.
func (w *Worker) park(a announcement) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := a.job
	if !a.stands() {
		return nil
	}
	w.Logger.Info("a job gives up its slot until its row can be updated", "job", j.id, "target", j.target.name)
	w.unslot(j, parked)
	j.recall = make(chan struct{})
	w.dispatch(j.target)
	return j.recall
}

// unslot takes its slot from a job that goes on later. The lock is held.
func (w *Worker) unslot(j *job, to phase) {
	w.free(j)
	j.slotted = false
	j.settleAsked()
	j.move(to)
	w.running.done()
}

// unpark puts a job whose row says running in front of its queue, or drops it where the journal says that somebody else has
// changed the row.
func (w *Worker) unpark(a announcement) {
	ours := make([]bool, 1)
	w.Recorder.View(viewStarts([]announcement{a}, ours))
	w.mu.Lock()
	defer w.mu.Unlock()
	j := a.job
	switch {
	case j.phase != parked:
	case !ours[0]:
		w.logTaken(j)
		w.quit(j, changedByOthers)
	default:
		w.Logger.Info("the row of a job can be updated again; it is the next of its target", "job", j.id, "target", j.target.name)
		w.putFirst(j)
		w.dispatch(j.target)
	}
}

// putFirst puts a job in front of its target's queue. The lock is held.
func (w *Worker) putFirst(j *job) {
	j.move(queued)
	j.target.queue = slices.Insert(j.target.queue, 0, j)
}

// quit takes a parked job out of the worker. The journal says what became of it, or the next start takes it up. The lock
// is held.
func (w *Worker) quit(j *job, why string) {
	if j.waiter != nil {
		j.waiter.refuse(j.id, why)
	}
	j.move(queued)
	w.forget(j)
	w.dispatch(j.target)
	w.retire(j.target)
}

// crowded tells whether so many jobs of the target are parked that no more are claimed.
func (t *target) crowded(prefetch int) bool {
	if prefetch < 0 {
		prefetch = t.concurrency
	}
	return t.parked >= max(mostParked, t.concurrency+prefetch)
}

// whyCrowded says so in words for the operator.
func (t *target) whyCrowded() string {
	return fmt.Sprintf("%d jobs were claimed and can't be started for now, because their rows can't be updated", t.parked)
}
