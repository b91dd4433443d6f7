package exec

import (
	"cmp"
	"slices"
)

// A job that is not to be started is given back by a turn: it stays in memory until its release is journalled, and
// is waited for by what waits for jobs. So a full disk delays it, and loses none.

// callOff has the next turn give a job back that was not started. The lock is held.
func (w *Worker) callOff(j *job, reason string) {
	if j.slotted {
		w.free(j)
	} else {
		w.running.add()
	}
	j.slotted, j.freed = true, true
	j.target.leaving++
	j.reason = reason
	j.move(leaving)
	j.settleAsked()
	w.beginning.add()
	w.inbox.off = append(w.inbox.off, j)
	w.nudgeTurn()
}

// gone takes a job out of the worker that was given back, or is somebody else's by now. The lock is held.
func (w *Worker) gone(s *step) {
	reason := s.job.reason
	if illegal(s.err) != nil {
		reason = changedByOthers
	} else if s.err != nil {
		w.Logger.Error("a job was not started, and not given back; the next start does it", "job", s.job.id, "error", s.err)
	}
	if s.job.waiter != nil {
		s.job.waiter.refuse(s.job.id, reason)
	}
	s.job.target.leaving--
	w.leave(s.job)
	w.beginning.done()
}

// leftToNext is why a job that was started before is not, when the worker stops.
const leftToNext = "the worker is stopping; the next start takes it up"

// mayLeave tells whether a job can be given back. One that was started before can't: the journal says that it ran.
func (j *job) mayLeave() bool { return j.attempt == 1 }

// stays tells whether a job is not to be started for now. The lock is held.
func (w *Worker) stays(j *job) bool { return w.stopping || j.target.paused || w.hitched(j) }

// takeBack stops a job that was not started, because its target is paused, the launcher can't be executed or the worker
// stops: a background job is given back; a manual one, which a client wants to be run here, waits in the queue, or parked,
// unless it can't be started anyway. The lock is held.
func (w *Worker) takeBack(j *job) {
	switch {
	case w.stopping && j.mayLeave():
		w.callOff(j, stoppedEarly)
	case w.stopping && j.phase == parked:
		w.quit(j, leftToNext)
	case w.stopping:
		w.drop(j, leftToNext)
	case j.mayLeave() && w.hitched(j):
		w.callOff(j, w.hitch.text())
	case j.mayLeave() && !j.claim.Manual:
		w.callOff(j, targetPaused)
	case j.phase == parked: // it has no slot, and goes on when its row shows it
	default:
		w.unslot(j, queued)
		w.putFirst(j)
		w.excuse(j)
	}
}

// takeBackAll stops everything of a target that was not started yet. The lock is held.
func (w *Worker) takeBackAll(t *target) {
	waiting := t.queue
	t.queue = nil
	for _, j := range waiting {
		switch {
		case j.mayLeave() && w.stopping:
			w.callOff(j, stoppedEarly)
		case j.mayLeave() && w.hitch != nil:
			w.callOff(j, w.hitch.text())
		case j.mayLeave() && !j.claim.Manual:
			w.callOff(j, targetPaused)
		case w.stopping: // it stays running in the journal: the next start takes it up as what it is
			delete(w.jobs, j.id)
		default:
			t.queue = append(t.queue, j)
			w.excuse(j)
		}
	}
	for _, j := range w.unstarted(t) {
		w.takeBack(j)
	}
	w.inbox.due = slices.DeleteFunc(w.inbox.due, func(j *job) bool { return j.phase != due })
}

// unstarted lists the jobs of a target that wait for their start, with a slot or parked, the newest first. The lock is
// held.
func (w *Worker) unstarted(t *target) (jobs []*job) {
	for _, j := range w.jobs {
		if j.target == t && (j.phase == due || j.phase == announced || j.phase == parked || j.phase == renewing) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(b.id, a.id) })
	return jobs
}
