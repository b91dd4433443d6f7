package exec

import (
	"errors"
	"fmt"
	"time"

	"jobd/journal"
)

// slot runs one job after the other for as long as its target has one for it. Each step
// is journalled before it is taken; what a crash between two steps means stands in the
// package's documentation.
func (w *Worker) slot(j *job) {
	defer w.running.Done()
	for j != nil {
		j = w.run(j)
	}
}

// run takes one job to its end. It gives the job that follows it in the slot, whose
// running is journalled already.
func (w *Worker) run(j *job) (next *job) {
	switch err := w.begin(j); {
	case errors.Is(err, errNotStarted):
		return nil
	case errors.Is(err, ErrOutcomeUnknown):
		return w.lose(j, err.Error())
	case err != nil:
		return w.finish(j, failure(err.Error()))
	default:
		return w.await(j)
	}
}

// errNotStarted says that a job is not to be started, and has left its slot.
var errNotStarted = errors.New("not started")

// begin announces and starts a job that has a slot.
func (w *Worker) begin(j *job) error {
	defer w.unslotted(j)
	for retry := Retry(nil); ; {
		if !w.announce(j) {
			return errNotStarted
		}
		err := w.start(j)
		if !errors.Is(err, ErrRunnerChanged) {
			return err
		}
		if retry == nil {
			retry = w.Retry("start a job")
		}
		w.pause(retry, err)
		j.announced = 0
	}
}

// pause waits before a start is announced anew, unless the worker stops.
func (w *Worker) pause(retry Retry, cause error) {
	ctx, cancel := w.until(w.stop)
	defer cancel()
	_ = retry.Wait(ctx, cause) // announce sees that the worker stops
}

// announce makes the row say running before the job is started. It is false where
// the job is not to be started: the worker stops, or the row is not ours any more.
func (w *Worker) announce(j *job) bool {
	if j.announced == 0 && !w.journalRunning(j) {
		return false
	}
	if !w.shown(j.announced) {
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

// journalRunning journals that a job is about to be started.
func (w *Worker) journalRunning(j *job) bool {
	instance, stopping := w.instance()
	if stopping && j.attempt > 1 {
		w.drop(j, "the worker is stopping; the next start takes it up")
		return false
	}
	events, err := w.record(j.running(instance))
	if err != nil {
		w.drop(j, "the journal failed")
		return false
	}
	j.announced = events[0].Seq
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

// start starts the job's process.
func (w *Worker) start(j *job) error {
	w.mu.Lock()
	launcher := w.launcher
	w.mu.Unlock()
	spec, err := launcher.spec(j.id, j.attempt)
	if err != nil {
		return err
	}
	spec.MaxOutput, spec.Runner = w.MaxOutput, j.runner
	process, err := w.Runner.Start(spec)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.process = process
	return nil
}

// startedDelay is how long the journal may be without the process of a job that was
// started. Most short jobs are over by then, and one append tells their whole story. What a crash
// in that time leaves open, the runner answers.
const startedDelay = 5 * time.Millisecond

// await waits for the end of the job's process.
func (w *Worker) await(j *job) (next *job) {
	timer := time.NewTimer(startedDelay)
	defer timer.Stop()
	select {
	case <-j.process.Ended():
	case <-timer.C:
		if err := w.tell(j); err != nil {
			w.Logger.Error("job runs, but its process could not be journalled", "job", j.id, "error", err)
		}
		<-j.process.Ended()
	}
	if done, known := j.process.Outcome(); known {
		return w.finish(j, done)
	}
	return w.lose(j, "the runner that started it was gone when it ended")
}

// tell journals events of a job that runs, behind the one that says so.
func (w *Worker) tell(j *job, drafts ...journal.Draft) error {
	j.telling.Lock()
	defer j.telling.Unlock()
	drafts = append(j.untold(), drafts...)
	if len(drafts) == 0 {
		return nil
	}
	if _, err := w.record(drafts...); err != nil {
		return err
	}
	j.told = true
	return nil
}

// lose ends a job whose outcome nobody knows: it is reported as failed or, if so
// configured, started again.
func (w *Worker) lose(j *job, reason string) (next *job) {
	if !w.again(j.attempt) {
		return w.finish(j, w.unknownOutcome(j.attempt, reason))
	}
	w.Logger.Warn("outcome of a job is unknown; it is started again", "job", j.id, "attempt", j.attempt+1, "reason", reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	j.target.active--
	w.put(&job{id: j.id, target: j.target, attempt: j.attempt + 1, waiter: j.waiter})
	return nil
}

// again tells whether a job of unknown outcome may be started once more.
func (w *Worker) again(attempt int) bool { return w.Requeue && attempt < w.MaxAttempts }

// finish journals the job's end and, in the same append, that the next one is about to be started
// in its slot. Then it tells who waits.
func (w *Worker) finish(j *job, done journal.Done) (next *job) {
	instance, err := w.Keeper.Instance()
	if err == nil {
		w.mu.Lock()
		next = w.take(j.target)
		w.mu.Unlock()
	}
	seq, err := w.journalDone(j, done, next, instance)
	var illegal *journal.IllegalError
	if next != nil && errors.As(err, &illegal) {
		w.mu.Lock()
		w.putBack(next)
		w.mu.Unlock()
		next = nil
		seq, err = w.journalDone(j, done, nil, instance)
	}
	if err != nil {
		w.Logger.Error("outcome of a job could not be journalled", "job", j.id, "error", err)
		w.drop(j, "the journal failed")
		if next != nil {
			w.unslotted(next)
			w.drop(next, "the journal failed")
		}
		return nil
	}
	w.Keeper.Forget(j.id, j.attempt)
	w.mu.Lock()
	client := j.waiter
	w.leave(j, next)
	w.mu.Unlock()
	if client != nil {
		w.running.Add(1)
		go w.answer(client, seq, done)
	}
	return next
}

// journalDone journals the end of a job, and the announcement of the next where there is one.
func (w *Worker) journalDone(j *job, done journal.Done, next *job, instance string) (seq uint64, err error) {
	j.telling.Lock()
	defer j.telling.Unlock()
	drafts := append(j.untold(), journal.Draft{Job: j.id, Payload: done})
	end := len(drafts) - 1
	if next != nil {
		drafts = append(drafts, next.running(instance))
	}
	events, err := w.record(drafts...)
	if err != nil {
		return 0, err
	}
	if next != nil {
		next.announced = events[end+1].Seq
	}
	return events[end].Seq, nil
}

// answerDelay is how long an answer waits for the table to show the outcome.
const answerDelay = time.Second

// answer tells a client how its job ended.
func (w *Worker) answer(client *waiter, seq uint64, done journal.Done) {
	defer w.running.Done()
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	select {
	case <-w.Mirror.Shown(seq):
	case <-timer.C:
	}
	result := resultOf(done)
	client.tell(&result, "")
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
