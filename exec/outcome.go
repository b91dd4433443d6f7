package exec

import (
	"errors"
	"fmt"
	"time"

	"jobd/journal"
)

// answerDelay is how long an answer waits for the table to show the outcome.
const answerDelay = time.Second

// answer tells a client how its job ended.
func (w *Worker) answer(client *waiter, id int64, seq uint64, done journal.Done) {
	timer := time.NewTimer(answerDelay)
	defer timer.Stop()
	select {
	case <-w.Mirror.Shown(seq, id):
	case <-timer.C:
	}
	result := resultOf(done)
	client.tell(&result, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running.done()
}

// failure is the outcome of a job that nobody saw ending, or that the runner will not start.
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

// outcome is how a job ended; nil where that is not its end. Why it is started once more is told in again. The lock is held.
func (w *Worker) outcome(j *job) (_ *journal.Done, again *journal.Requeued) {
	done, err := j.process.Outcome()
	var never *NotStartedError
	switch {
	case err == nil:
		w.proves(j)
	case errors.As(err, &never):
		w.notStarted(j, never)
		return nil, nil
	case errors.Is(err, ErrRunnerChanged):
		w.announceAgain(j, err)
		return nil, nil
	case errors.Is(err, ErrOutcomeUnknown) && w.mayRepeat(j):
		w.startAgain(j, err)
		return nil, &journal.Requeued{Reason: err.Error(), By: byRequeue, Token: j.claim.Token}
	case errors.Is(err, ErrOutcomeUnknown):
		elapsed := done.Elapsed
		done = w.unknownOutcome(j.attempt, err.Error())
		done.Elapsed = elapsed
	default:
		done = failure(err.Error())
	}
	done.Token, done.Finished = j.claim.Token, finished(j.began, done.Elapsed)
	w.free(j)
	w.dispatch(j.target)
	return &done, nil
}

// byRequeue is who wants jobs of unknown outcome started once more.
const byRequeue = "on_crash = requeue"

// clockSlack is how far the clock may be behind the end of a job that it timed, before it counts as set back.
const clockSlack = time.Second

// finished is when a job ended that began at a time and ran for so many microseconds, where the clock has been set back
// since and tells an earlier time; else 0.
func finished(began time.Time, elapsed int64) int64 {
	end := began.Add(time.Duration(elapsed) * time.Microsecond)
	if began.IsZero() || elapsed == 0 || !time.Now().Before(end.Add(-clockSlack)) {
		return 0
	}
	return end.UnixMicro()
}

// startAgain queues a job whose outcome nobody knows for its next attempt. The lock is held.
func (w *Worker) startAgain(j *job, cause error) {
	w.Logger.Warn("outcome of a job is unknown; it is started again",
		"job", j.id, "target", j.target.name, "attempt", j.attempt+1, "reason", cause)
	w.free(j)
	w.running.done()
	next := w.newJob(j.id, j.claim, j.attempt+1)
	next.waiter = j.waiter
	w.put(next)
}

// mayRepeat tells whether a job of unknown outcome may be started once more. The lock is held.
func (w *Worker) mayRepeat(j *job) bool {
	_, served := w.targets[j.target.name]
	return served && w.Requeue && j.attempt < w.MaxAttempts
}
