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
// their end. It needs no table, and journals nothing: claims go to the claim loop, which asks the table
// whether they were won; ends go to the turns. ignored are the rows that were ignored last: the claim loop asks those too.
func (w *Worker) recover(ignored []int64) error {
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
		w.takeUp(old, recalled[key], instance)
		delete(recalled, key)
	}
	for _, id := range ignored {
		if !w.holds(id) {
			w.doubtful[id] = &doubt{ignored: true, former: true}
		}
	}
	for key, process := range recalled {
		go w.abandon(key, process)
	}
	return nil
}

// abandon has the runner forget a start that the journal does not wait for: its outcome was journalled
// before the worker was killed, and only the runner was not told.
func (w *Worker) abandon(key start, process Process) {
	select {
	case <-process.Ended():
		w.Keeper.Forget(key.job, key.attempt)
	case <-w.turned: // the next start is told of it again
	}
}

func (w *Worker) unfinished() (jobs []journal.Job) {
	w.Recorder.View(func(s *journal.State) { jobs = s.Unfinished() })
	return jobs
}

// takeUp goes on with one job. process is what the runner has of its newest start, nil
// where it has nothing. The lock is held.
func (w *Worker) takeUp(old journal.Job, process Process, instance string) {
	switch {
	case old.Status == journal.StatusAccepted:
		w.doubtful[old.ID] = &doubt{Accepted: acceptedOf(old)}
		return
	case process != nil:
		w.adopt(old, process)
		return
	case old.Status == journal.StatusStarting:
		w.takeUpStart(old, instance)
		return
	}
	if old.Process != nil {
		if stray, alive := w.Runner.Adopt(*old.Process); alive {
			w.adopt(old, stray)
			return
		}
	}
	w.lose(w.newJob(old.ID, acceptedOf(old), old.Attempt), killedWhileItRan)
}

// killedWhileItRan is why nobody knows how a job ended, or whether it was started.
const killedWhileItRan = "the worker and its runner were killed, or the machine lost power, while it ran"

// takeUpStart goes on with a job that was announced, and of which the runner that is there knows nothing. It was
// never started where that is the one that was to do it, or where that one ended in order. Where the
// claim itself announced it, the claim may not have been won, which the table tells first. The lock is held.
func (w *Worker) takeUpStart(old journal.Job, instance string) {
	never := old.Runner == instance && instance != "" || w.Keeper.Ended(old.Runner)
	claim := acceptedOf(old)
	if old.Claimed {
		w.doubtful[old.ID] = &doubt{Accepted: claim, started: !never}
		return
	}
	j := w.newJob(old.ID, claim, old.Attempt)
	switch _, served := w.targets[old.Target]; {
	case !never:
		w.lose(j, killedWhileItRan)
	case !served:
		w.callOff(j, notServed)
	default:
		w.put(j)
	}
}

// acceptedOf is the claim of a job.
func acceptedOf(j journal.Job) journal.Accepted {
	return journal.Accepted{Target: j.Target, Manual: j.Manual, Token: j.Token}
}

// adopt goes on with a process that a former worker had started; it holds a
// slot like any other. The lock is held.
func (w *Worker) adopt(old journal.Job, process Process) {
	w.Logger.Info("job goes on from before", "job", old.ID, "target", old.Target, "pid", process.Started().Pid)
	j := w.newJob(old.ID, acceptedOf(old), old.Attempt)
	w.takeSlot(j, started)
	j.process, j.began, j.told = process, old.Running, old.Status == journal.StatusRunning
	w.look(j)
	go func() {
		for _, news := range []<-chan struct{}{process.Begun(), process.Ended()} {
			select {
			case <-news:
				w.onNews(j)
			case <-w.turned:
				return
			}
		}
	}()
}
