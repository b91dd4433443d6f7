package exec

import (
	"errors"

	"jobd/journal"
)

// viewStarts finds which jobs the journal sees as about to be started, under our claim.
func viewStarts(group []announcement, ours []bool) func(*journal.State) {
	return func(s *journal.State) {
		for i, a := range group {
			known := s.Job(a.job.id)
			ours[i] = known.Status == journal.StatusStarting && known.Token == a.job.claim.Token
		}
	}
}

// start asks for the start of a job's process, unless its target was paused meanwhile, or the worker stops.
func (w *Worker) start(a announcement) {
	launcher, starts := w.beginStart(a)
	if !starts {
		return
	}
	j := a.job
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
	w.endStart(j)
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

// beginStart is false where a job is not to be started any more.
func (w *Worker) beginStart(a announcement) (launcher Launcher, starts bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !a.stands():
		return launcher, false
	case w.stays(a.job):
		w.takeBack(a.job)
		return launcher, false
	}
	a.job.move(starting)
	a.job.launcher = w.launchers
	a.job.target.starts++
	return w.launcher, true
}

// endStart notes that the runner was asked. The lock is held.
func (w *Worker) endStart(j *job) {
	j.move(started)
	if j.target.starts--; j.target.starts == 0 {
		w.quiet.Broadcast()
	}
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

// announceAgain has a job announced anew, whose start did not happen because its runner was replaced by
// then, or something was missing for a moment; after a pause, or not at all when it is to stay. The lock is held.
func (w *Worker) announceAgain(j *job, cause error) {
	j.move(renewing)
	j.process, j.over = nil, false
	if w.stays(j) {
		w.takeBack(j)
		return
	}
	if j.retry == nil {
		j.retry = w.Retry("start a job")
	}
	w.beginning.add()
	go func() {
		defer w.begun()
		if w.pause(j.retry, cause) {
			w.dueAgain(j)
		}
	}()
}

// dueAgain makes a job one that is to be announced, unless it was taken back meanwhile.
func (w *Worker) dueAgain(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.phase != renewing {
		return
	}
	if w.stopping {
		w.takeBack(j)
		return
	}
	j.move(due)
	w.inbox.due = append(w.inbox.due, j)
	w.nudgeTurn()
}

// stillborn is a process that could not be started, or of which nobody knows how it ended.
type stillborn struct {
	cause error
	over  chan struct{} // closed
}

func newStillborn(cause error) stillborn {
	s := stillborn{cause, make(chan struct{})}
	close(s.over)
	return s
}

// unknown is an outcome that nobody can tell any more, and why.
type unknown string

// Error implements error.
func (u unknown) Error() string { return string(u) }

// Is tells that it is an ErrOutcomeUnknown.
func (unknown) Is(target error) bool { return target == ErrOutcomeUnknown }

// lost tells whether the job was lost with a runner that is gone: nothing is kept of it anywhere.
func (j *job) lost() bool {
	s, never := j.process.(stillborn)
	return never && errors.Is(s.cause, ErrOutcomeUnknown)
}

// lose ends a job of unknown outcome that was taken up from before. The next turn journals it. The lock is held.
func (w *Worker) lose(j *job, why string) {
	w.takeSlot(j, started)
	j.process, j.told = newStillborn(unknown(why)), true
	w.look(j)
	if !w.mayRepeat(j) {
		w.Logger.Warn("outcome of a job is unknown; it is reported as failed", "job", j.id, "target", j.target.name)
	}
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
