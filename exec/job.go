package exec

import (
	"errors"
	"fmt"
	"time"

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
		j := t.pop()
		t.active++
		w.running.Add(1)
		go w.run(j)
	}
	if t.room(w.Prefetch) > 0 {
		w.wake()
	}
}

// run takes one job, which has a slot, to its end. Each step is journalled before it is
// taken; what a crash between two steps means stands in the package's documentation.
func (w *Worker) run(j *job) {
	defer w.running.Done()
	if !w.announce(j) {
		return
	}
	switch err := w.start(j); {
	case errors.Is(err, ErrOutcomeUnknown):
		w.lose(j, err.Error())
	case err != nil:
		w.finish(j, failure(err.Error()))
	default:
		w.await(j)
	}
}

// await waits for the end of the job's process.
func (w *Worker) await(j *job) {
	if done, known := j.process.Wait(); known {
		w.finish(j, done)
	} else {
		w.lose(j, "the runner that started it was gone when it ended")
	}
}

// lose ends a job whose outcome nobody knows: it is reported as failed or, if so
// configured, started again.
func (w *Worker) lose(j *job, reason string) {
	if !w.again(j.attempt) {
		w.finish(j, w.unknownOutcome(j.attempt, reason))
		return
	}
	w.Logger.Warn("outcome of a job is unknown; it is started again", "job", j.id, "attempt", j.attempt+1, "reason", reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	j.attempt, j.process = j.attempt+1, nil
	j.target.active--
	w.put(j)
}

// again tells whether a job of unknown outcome may be started once more.
func (w *Worker) again(attempt int) bool { return w.Requeue && attempt < w.MaxAttempts }

// announce makes the row say running before the job is started. It is false where
// the job is not to be started: the worker stops, or the row is not ours any more.
func (w *Worker) announce(j *job) bool {
	instance, stopping := w.instance()
	if stopping && j.attempt > 1 {
		w.drop(j, "the worker is stopping; the next start takes it up")
		return false
	}
	events, err := w.record(journal.Draft{Job: j.id, Payload: journal.Running{Attempt: j.attempt, Runner: instance}})
	if err != nil {
		w.drop(j, "the journal failed")
		return false
	}
	if stopping || !w.shown(events[0].Seq) {
		if err := w.release([]int64{j.id}, stoppedEarly); err != nil {
			w.Logger.Error("job was not started, and not given back", "job", j.id, "error", err)
		}
		w.drop(j, "the worker is stopping; the job was given back")
		return false
	}
	if w.status(j.id) != journal.StatusStarting {
		w.Logger.Warn("job is not started: its row was changed by somebody else", "job", j.id, "target", j.target.name)
		w.drop(j, "the job's row was changed by somebody else")
		return false
	}
	return true
}

// instance names the runner that is to start a job. One that can't be had is waited
// for, until the worker stops.
func (w *Worker) instance() (name string, stopping bool) {
	name, err := w.Keeper.Instance()
	if err == nil {
		return name, false
	}
	ctx, cancel := w.until(w.stop)
	defer cancel()
	for retry := w.Retry("start the runner"); err != nil; name, err = w.Keeper.Instance() {
		if retry.Wait(ctx, err) != nil {
			return "", true
		}
	}
	return name, false
}

// shown waits until the mirror is done with an event. It is false when the worker stops before. While
// the database is away it may be true at once, if so configured.
func (w *Worker) shown(seq uint64) bool {
	var away <-chan struct{}
	if w.LaunchOffline {
		away = w.Mirror.Away()
	}
	select {
	case <-w.Mirror.Shown(seq):
		return true
	case <-away:
		return true
	case <-w.stop:
		return false
	}
}

// status is where the journal sees a job.
func (w *Worker) status(id int64) (status journal.Status) {
	w.Recorder.View(func(s *journal.State) { status = s.Job(id).Status })
	return status
}

// start starts the job's process and journals which one it is.
func (w *Worker) start(j *job) error {
	w.mu.Lock()
	launcher := w.launcher
	w.mu.Unlock()
	spec, err := launcher.spec(j.id, j.attempt)
	if err != nil {
		return err
	}
	spec.MaxOutput = w.MaxOutput
	process, err := w.Runner.Start(spec)
	if err != nil {
		return err
	}
	w.mu.Lock()
	j.process = process
	w.mu.Unlock()
	if _, err := w.record(journal.Draft{Job: j.id, Payload: process.Started()}); err != nil {
		w.Logger.Error("job runs, but its process could not be journalled", "job", j.id, "error", err)
	}
	return nil
}

// finish journals the job's end, gives its slot to the next, and tells who waits.
func (w *Worker) finish(j *job, done journal.Done) {
	events, err := w.record(journal.Draft{Job: j.id, Payload: done})
	if err != nil {
		w.Logger.Error("outcome of a job could not be journalled", "job", j.id, "error", err)
		w.drop(j, "the journal failed")
		return
	}
	w.Keeper.Forget(j.id, j.attempt)
	w.mu.Lock()
	client := j.waiter
	w.leave(j)
	w.mu.Unlock()
	if client != nil {
		w.answer(client, events[0].Seq, done)
	}
}

// answerDelay is how long an answer waits for the table to show the outcome.
const answerDelay = time.Second

// answer tells a client how its job ended.
func (w *Worker) answer(client *waiter, seq uint64, done journal.Done) {
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	select {
	case <-w.Mirror.Shown(seq):
	case <-timer.C:
	}
	result := resultOf(done)
	client.tell(&result, "")
}

// drop takes a job out of the worker without an outcome.
func (w *Worker) drop(j *job, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave(j)
	if j.waiter != nil {
		j.waiter.refuse(j.id, why)
	}
}

// leave frees the job's slot. The lock is held.
func (w *Worker) leave(j *job) {
	delete(w.jobs, j.id)
	t := j.target
	t.active--
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

// failure is the outcome of a job that could not be started.
func failure(reason string) journal.Done {
	text := []byte("jobd: " + reason + "\n")
	return journal.Done{Result: "fail", Reason: reason, Stderr: journal.Output{Kept: text, Size: int64(len(text))}}
}

// unknownOutcome is the outcome of a job that nobody saw ending.
func (w *Worker) unknownOutcome(attempt int, reason string) journal.Done {
	if w.Requeue {
		reason = fmt.Sprintf("%s; attempt %d of %d", reason, attempt, w.MaxAttempts)
	}
	return failure("outcome unknown: " + reason)
}
