package exec

import (
	"errors"

	"jobd/journal"
)

// launch starts jobs that were announced, as soon as their rows say so.
func (w *Worker) launch(jobs []*job) {
	defer w.beginning.Done()
	if !w.shown(jobs[len(jobs)-1].announced) {
		w.callOff(jobs)
		return
	}
	for _, j := range w.stillOurs(jobs) {
		w.start(j)
	}
}

// startAll starts jobs whose claims said that they are running.
func (w *Worker) startAll(jobs []*job) {
	defer w.beginning.Done()
	if isClosed(w.stop) {
		w.callOff(jobs)
		return
	}
	for _, j := range jobs {
		w.start(j)
	}
}

// shown waits until the mirror is done with an event. It is false when the worker stops before. While
// the database is away it may be true at once, if so configured.
func (w *Worker) shown(seq uint64) bool {
	var away <-chan struct{}
	if w.LaunchOffline {
		away = w.Mirror.Away()
	}
	select {
	case <-w.Mirror.Shown(seq, 0):
		return true
	case <-away:
		return true
	case <-w.stop:
		return false
	}
}

// callOff gives back jobs that were announced and are not to be started because the worker stops.
func (w *Worker) callOff(jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	ids := make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i] = j.id
	}
	if err := w.release(ids, stoppedEarly); err != nil {
		w.Logger.Error("jobs were not started, and not given back", "jobs", ids, "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range jobs {
		w.drop(j, "the worker is stopping; the job was given back")
	}
}

// stillOurs gives the jobs that the journal still sees as about to be started, and drops the others.
func (w *Worker) stillOurs(jobs []*job) (ours []*job) {
	var theirs []*job
	w.Recorder.View(func(s *journal.State) {
		for _, j := range jobs {
			if s.Job(j.id).Status == journal.StatusStarting {
				ours = append(ours, j)
			} else {
				theirs = append(theirs, j)
			}
		}
	})
	if len(theirs) == 0 {
		return ours
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range theirs {
		w.Logger.Warn("job is not started: its row was changed by somebody else", "job", j.id, "target", j.target.name)
		w.drop(j, "the job's row was changed by somebody else")
	}
	return ours
}

// start asks for the start of a job's process.
func (w *Worker) start(j *job) {
	w.mu.Lock()
	launcher := w.launcher
	w.mu.Unlock()
	var process Process
	spec, err := launcher.spec(j.id, j.attempt)
	if err == nil {
		spec.MaxOutput, spec.Runner = w.MaxOutput, j.runner
		spec.OnBegun = func() { w.onNews(j) }
		spec.OnEnded = spec.OnBegun
		process, err = w.Runner.Start(spec)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, ErrRunnerChanged):
		w.announceAgain(j, err)
		return
	case err != nil:
		process = newStillborn(err)
	}
	j.process = process
	j.settleAsked()
	w.look(j)
}

// onNews is called when a job is known to run, and when it has ended.
func (w *Worker) onNews(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(j)
}

// look puts into the inbox what has become of a job's process. It may be called early, before the process is noted,
// and more often than needed. The lock is held.
func (w *Worker) look(j *job) {
	switch {
	case j.process == nil || j.over:
		return
	case isClosed(j.process.Ended()):
		j.over = true
		w.inbox.ended = append(w.inbox.ended, j)
	case !j.told && isClosed(j.process.Begun()):
		w.inbox.begun = append(w.inbox.begun, j)
	default:
		return
	}
	w.nudgeTurn()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// announceAgain has a job announced anew, whose start did not happen because its runner was replaced by
// then; after a pause, or not at all when the worker stops. The lock is held.
func (w *Worker) announceAgain(j *job, cause error) {
	if j.retry == nil {
		j.retry = w.Retry("start a job")
	}
	if w.stopping {
		w.inbox.off = append(w.inbox.off, j)
		w.nudgeTurn()
		return
	}
	w.beginning.Add(1)
	go func() {
		defer w.beginning.Done()
		if !w.pause(j.retry, cause) || !w.dueAgain(j) {
			w.callOff([]*job{j})
		}
	}()
}

// dueAgain makes a job one that is to be announced. It is false when the worker stops.
func (w *Worker) dueAgain(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return false
	}
	j.process, j.over = nil, false
	w.inbox.due = append(w.inbox.due, j)
	w.nudgeTurn()
	return true
}

// stillborn is a process that could not be started.
type stillborn struct {
	cause error
	over  chan struct{} // closed
}

func newStillborn(cause error) stillborn {
	s := stillborn{cause, make(chan struct{})}
	close(s.over)
	return s
}

// Begun implements Process.
func (s stillborn) Begun() <-chan struct{} { return s.over }

// Started implements Process.
func (stillborn) Started() journal.Started { return journal.Started{} }

// Signal implements Process.
func (stillborn) Signal(int) error { return errGone }

// Ended implements Process.
func (s stillborn) Ended() <-chan struct{} { return s.over }

// Outcome implements Process.
func (s stillborn) Outcome() (journal.Done, error) { return journal.Done{}, s.cause }
