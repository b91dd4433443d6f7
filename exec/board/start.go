package board

import (
	"log/slog"
	"time"

	"jobd/journal"
)

// changedByOthers is why a job is given up whose claim the mirror found lost.
const changedByOthers = "the job's row was changed by somebody else"

// Waiting gives a channel that is closed when a start that waits for its row, with a slot or
// parked, is not waited for any more; nil where that is so now.
func (b *Board) Waiting(s Start) <-chan struct{} {
	if !s.stands(Announced) && !s.stands(Parked) {
		return nil
	}
	return s.Job.Moved()
}

// Park gives the slot of a job that waits for its row to the next one.
func (b *Board) Park(s Start) Effects {
	if s.stands(Announced) {
		b.note(slog.LevelInfo, "a job gives up its slot until its row can be updated", s.Job)
		b.move(s.Job, Parked)
		b.dispatch(s.Job.target)
	}
	return b.follow()
}

// Unpark puts a job whose row says running in front of its target's queue.
func (b *Board) Unpark(s Start) Effects {
	if s.stands(Parked) {
		b.note(slog.LevelInfo, "the row of a job can be updated again; it is the next of its target", s.Job)
		b.enqueueFirst(s.Job)
		b.dispatch(s.Job.target)
	}
	return b.follow()
}

// Taken gives up a job that waits for its start, and whose row is somebody else's by now, as the
// journal knows.
func (b *Board) Taken(s Start) Effects {
	if s.stands(Announced) || s.stands(Parked) {
		b.noteTaken(s.Job)
		b.drop(s.Job, changedByOthers)
	}
	return b.follow()
}

func (b *Board) noteTaken(j *Job) {
	b.note(slog.LevelWarn, "job is not started: its row was changed by somebody else", j)
}

// Ask is true where a start is to be asked for now. It is false where the start stands no more; a
// job whose target was paused meanwhile, say, is taken back.
func (b *Board) Ask(s Start) (ask bool, e Effects) {
	if s.stands(Announced) {
		if ask = !b.stays(s.Job); ask {
			b.move(s.Job, Asking)
			s.Job.launcher = b.launcher
		} else {
			b.takeBack(s.Job)
		}
	}
	return ask, b.follow()
}

// Asked notes that the runner was asked for a start. process is what it gave; nil where Ended
// follows at once.
func (b *Board) Asked(j *Job, process Process) {
	b.move(j, Asked)
	j.process = process
}

// Replaced has a start announced anew that was not asked for, because the runner that was announced
// is another one by now.
func (b *Board) Replaced(j *Job, cause error) Effects {
	b.renew(j, Renewal{Job: j, Cause: cause})
	return b.follow()
}

// Began notes that a job is known to run. The next turn journals its process.
func (b *Board) Began(j *Job, process journal.Started, now time.Time) Effects {
	if j.phase == Asked {
		b.move(j, Running)
		j.unwanted = false
		j.tells(process)
		b.ran(j, now)
		j.refusals = 0
		b.inbox.begun = append(b.inbox.begun, j)
		b.effects.Turn = true
	}
	return b.follow()
}

// Ended notes how a job's start ended, and which process it was, where that is known. The next turn
// takes it from there.
func (b *Board) Ended(j *Job, process journal.Started, outcome Outcome) Effects {
	if j.phase != Asked && j.phase != Running {
		return b.follow()
	}
	e := ended{job: j, Outcome: outcome}
	if j.phase == Asked {
		j.tells(process)
		e.ran = j.unsaid != nil
	}
	b.move(j, Ended)
	b.end(e)
	return b.follow()
}

// ran notes that a job was started just now, which shows that jobs can be. The end of one that was started
// long ago shows nothing of the kind, nor does that of a request which was never sent.
func (b *Board) ran(j *Job, now time.Time) {
	b.proves(j, now)
	b.takes(j, now)
}

// end has the next turn take the outcome of a job.
func (b *Board) end(e ended) {
	b.inbox.ended = append(b.inbox.ended, e)
	b.effects.Turn = true
}

// renew has a job announced anew whose start did not happen, after a moment; or takes it back,
// where it is to stay.
func (b *Board) renew(j *Job, r Renewal) {
	b.move(j, Renewing)
	j.process, j.unsaid = nil, nil
	j.unwanted, j.halted, j.held, j.givenUp, j.ends = false, 0, false, "", false
	if b.stays(j) {
		b.takeBack(j)
		return
	}
	b.effects.Renewed = append(b.effects.Renewed, r)
}

// Renew has a job announced whose start was put off, unless it was taken back meanwhile.
func (b *Board) Renew(j *Job) Effects {
	switch {
	case j.phase != Renewing:
	case b.stopping:
		b.takeBack(j)
	default:
		b.due(j)
	}
	return b.follow()
}
