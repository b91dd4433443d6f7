package exec

import (
	"fmt"

	"jobd/journal"
)

// recover takes up the jobs that a former run of the worker did not bring to
// their end. It needs no table: claims go to the claim loop, which asks the table
// whether they were won before it claims anything else.
func (w *Worker) recover() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, old := range w.unfinished() {
		if old.Status == journal.StatusAccepted {
			w.doubtful[old.ID] = journal.Accepted{Target: old.Target, Manual: old.Manual, Token: old.Token}
			continue
		}
		if err := w.takeUp(old); err != nil {
			return fmt.Errorf("recover job %d: %w", old.ID, err)
		}
	}
	return nil
}

func (w *Worker) unfinished() (jobs []journal.Job) {
	w.Recorder.View(func(s *journal.State) { jobs = s.Unfinished() })
	return jobs
}

// takeUp goes on with a job that may have been started. The lock is held.
func (w *Worker) takeUp(old journal.Job) error {
	if old.Process != nil {
		if process, alive := w.Runner.Adopt(*old.Process); alive {
			w.adopt(old, process)
			return nil
		}
	}
	t, served := w.targets[old.Target]
	if w.Requeue && served {
		w.Logger.Warn("outcome of a job is unknown; it is started again", "job", old.ID, "target", old.Target, "attempt", old.Attempt+1)
		w.put(&job{id: old.ID, target: t, attempt: old.Attempt + 1})
		return nil
	}
	w.Logger.Warn("outcome of a job is unknown; it is reported as failed", "job", old.ID, "target", old.Target)
	done := unknownOutcome("the worker was killed, or the machine lost power, while it ran")
	_, err := w.Recorder.Append(journal.Draft{Job: old.ID, Payload: done})
	return err
}

// adopt waits for a process that outlived the worker which started it; it holds a
// slot like any other. The lock is held.
func (w *Worker) adopt(old journal.Job, process Process) {
	w.Logger.Info("job runs on from before", "job", old.ID, "target", old.Target, "pid", process.Started().Pid)
	t, served := w.targets[old.Target]
	if !served {
		t = &target{name: old.Target}
	}
	j := &job{id: old.ID, target: t, attempt: old.Attempt, process: process}
	w.jobs[j.id] = j
	t.active++
	w.running.Add(1)
	go func() {
		defer w.running.Done()
		w.await(j)
	}()
}
