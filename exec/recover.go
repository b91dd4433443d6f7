package exec

import (
	"fmt"

	"jobd/journal"
)

// start tells one start of one job from all others.
type start struct {
	job     int64
	attempt int
}

// recover takes up the jobs that a former run of the worker did not bring to
// their end. It needs no table: claims go to the claim loop, which asks the table
// whether they were won before it claims anything else.
func (w *Worker) recover() error {
	instance, err := w.Keeper.Instance()
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	recalled := make(map[start]Process)
	for _, r := range w.Keeper.Recall() {
		recalled[start{r.Job, r.Attempt}] = r.Process
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.unfinished() {
		key := start{old.ID, old.Attempt}
		if err := w.takeUp(old, recalled[key], instance); err != nil {
			return fmt.Errorf("recover job %d: %w", old.ID, err)
		}
		delete(recalled, key)
	}
	for key, process := range recalled {
		go w.abandon(key, process)
	}
	return nil
}

// abandon has the runner forget a start that the journal does not wait for: its outcome was journalled
// before the worker was killed, and only the runner was not told.
func (w *Worker) abandon(key start, process Process) {
	<-process.Ended()
	w.Keeper.Forget(key.job, key.attempt)
}

func (w *Worker) unfinished() (jobs []journal.Job) {
	w.Recorder.View(func(s *journal.State) { jobs = s.Unfinished() })
	return jobs
}

// status is where the journal sees a job.
func (w *Worker) status(id int64) (status journal.Status) {
	w.Recorder.View(func(s *journal.State) { status = s.Job(id).Status })
	return status
}

// takeUp goes on with one job. process is what the runner has of its newest start, nil
// where it has nothing. The lock is held.
func (w *Worker) takeUp(old journal.Job, process Process, instance string) error {
	switch {
	case old.Status == journal.StatusAccepted:
		w.doubtful[old.ID] = doubt{Accepted: acceptedOf(old)}
		return nil
	case process != nil:
		return w.resume(old, process)
	case old.Status == journal.StatusStarting:
		return w.takeUpStart(old, instance)
	}
	if old.Process != nil {
		if stray, alive := w.Runner.Adopt(*old.Process); alive {
			w.adopt(old, stray)
			return nil
		}
	}
	return w.loseOld(old, killedWhileItRan)
}

// killedWhileItRan is why nobody knows how a job ended, or whether it was started.
const killedWhileItRan = "the worker and its runner were killed, or the machine lost power, while it ran"

// takeUpStart goes on with a job that was announced, and of which the runner that is there knows nothing. It was
// never started where that is the one that was to do it, or where that one ended in order. Where the
// claim itself announced it, the claim may not have been won, which the table tells first. The lock is held.
func (w *Worker) takeUpStart(old journal.Job, instance string) error {
	never := old.Runner == instance && instance != "" || w.Keeper.Ended(old.Runner)
	switch {
	case old.Claimed:
		w.doubtful[old.ID] = doubt{Accepted: acceptedOf(old), started: !never}
		return nil
	case never:
		return w.startAfterAll(old)
	default:
		return w.loseOld(old, killedWhileItRan)
	}
}

// acceptedOf is the claim of a job.
func acceptedOf(j journal.Job) journal.Accepted {
	return journal.Accepted{Target: j.Target, Manual: j.Manual, Token: j.Token}
}

// resume goes on with a job that the runner has.
func (w *Worker) resume(old journal.Job, process Process) error {
	if old.Status == journal.StatusStarting {
		if _, err := w.Recorder.Append(journal.Draft{Job: old.ID, Payload: process.Started()}); err != nil {
			return err
		}
	}
	w.adopt(old, process)
	return nil
}

// startAfterAll queues a job whose start never reached the runner.
func (w *Worker) startAfterAll(old journal.Job) error {
	t, served := w.targets[old.Target]
	if !served {
		_, err := w.Recorder.Append(journal.Draft{Job: old.ID, Payload: journal.Released{Reason: "its target is not served any more"}})
		return err
	}
	w.put(&job{id: old.ID, target: t, attempt: old.Attempt})
	return nil
}

// loseOld ends a job whose outcome nobody can know any more, or starts it again.
func (w *Worker) loseOld(old journal.Job, reason string) error {
	t, served := w.targets[old.Target]
	if served && w.again(old.Attempt) {
		w.Logger.Warn("outcome of a job is unknown; it is started again", "job", old.ID, "target", old.Target, "attempt", old.Attempt+1)
		w.put(&job{id: old.ID, target: t, attempt: old.Attempt + 1})
		return nil
	}
	w.Logger.Warn("outcome of a job is unknown; it is reported as failed", "job", old.ID, "target", old.Target)
	done := w.unknownOutcome(old.Attempt, reason)
	_, err := w.Recorder.Append(journal.Draft{Job: old.ID, Payload: done})
	return err
}

// adopt waits for a process that a former worker had started; it holds a
// slot like any other. The lock is held.
func (w *Worker) adopt(old journal.Job, process Process) {
	w.Logger.Info("job goes on from before", "job", old.ID, "target", old.Target, "pid", process.Started().Pid)
	t, served := w.targets[old.Target]
	if !served {
		t = &target{name: old.Target}
	}
	j := &job{id: old.ID, target: t, attempt: old.Attempt, slotted: true, process: process, told: true}
	w.jobs[j.id] = j
	t.active++
	w.running.Add(1)
	go func() {
		<-process.Ended()
		w.onNews(j)
	}()
}
