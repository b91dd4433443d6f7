package exec

import "jobd/journal"

// step is what a turn journals of one job.
type step struct {
	job    *job
	done   *journal.Done // the job's end
	signal *signalling
	start  bool // the job is announced
	off    bool // the job is given back
	again  bool // why the job is to be started once more
	tells  bool // the job's process is among what is journalled
	drafts []journal.Draft
	events []journal.Event
	err    error // why nothing of it was journalled
}

// journalSteps appends the steps of a turn. Where one of them contradicts the journal, because its row was
// changed by somebody else, the others are not held up.
func (w *Worker) journalSteps(steps []*step) {
	var drafts []journal.Draft
	for _, s := range steps {
		drafts = append(drafts, s.drafts...)
	}
	events, err := w.record(drafts...)
	if illegal(err) != nil && len(steps) > 1 {
		for _, s := range steps {
			s.events, s.err = w.record(s.drafts...)
		}
		return
	}
	for _, s := range steps {
		if s.err = err; err == nil {
			s.events, events = events[:len(s.drafts)], events[len(s.drafts):]
		}
	}
}

// settle does what is to follow what was journalled, and gives the jobs that are to be started.
func (w *Worker) settle(steps []*step) (group []announcement) {
	for _, s := range steps {
		if s.done != nil && s.err == nil && !s.job.lost() {
			w.Keeper.Forget(s.job.id, s.job.attempt)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	starts := false
	for _, s := range steps {
		starts = starts || s.start
		switch {
		case s.signal != nil:
			s.signal.journalled <- s.err
		case s.off:
			w.gone(s)
		case s.again: // where that contradicts the journal the next start does too, which gives the job up
		case s.err != nil:
			w.notJournalled(s)
		case s.done != nil:
			w.finish(s)
		case s.start:
			group = w.announce(s, group)
		}
		if s.tells && s.err != nil {
			s.job.told = false
		}
	}
	if starts && len(group) == 0 {
		w.beginning.done()
	}
	return group
}

// announce notes that a job's start is journalled; where its target was paused meanwhile, say, it is not to
// happen. The lock is held.
func (w *Worker) announce(s *step, group []announcement) []announcement {
	s.job.move(announced)
	s.job.announced, s.job.began = s.events[0].Seq, s.events[0].Time
	if w.stays(s.job) {
		w.takeBack(s.job)
		return group
	}
	return append(group, announcement{s.job, s.job.announced})
}

// changedByOthers is why a job is given up whose claim the mirror found lost.
const changedByOthers = "the job's row was changed by somebody else"

// notJournalled gives up what could not be journalled. The lock is held.
func (w *Worker) notJournalled(s *step) {
	switch {
	case s.done != nil:
		w.Logger.Error("outcome of a job could not be journalled", "job", s.job.id, "error", s.err)
	case s.start && w.failure == nil:
		w.logTaken(s.job)
	case !s.start:
		w.Logger.Error("job runs, but its process could not be journalled", "job", s.job.id, "error", s.err)
		return
	}
	why := changedByOthers
	if w.failure != nil {
		why = "the journal failed"
	}
	w.drop(s.job, why)
}

// finish takes a job whose end is journalled out of the worker, and tells who waits for it. The lock is held.
func (w *Worker) finish(s *step) {
	if s.job.waiter != nil {
		w.running.add()
		go w.answer(s.job.waiter, s.job.id, s.events[len(s.events)-1].Seq, *s.done)
	}
	w.leave(s.job)
}
