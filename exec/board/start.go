package board

import (
	"errors"
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
	b.renew(j, cause)
	return b.follow()
}

// Began notes that a job is known to run. The next turn journals its process.
func (b *Board) Began(j *Job, process journal.Started, now time.Time) Effects {
	if j.phase == Asked {
		b.move(j, Running)
		j.unsaid = process
		b.proves(j, now)
		b.inbox.begun = append(b.inbox.begun, j)
		b.effects.Turn = true
	}
	return b.follow()
}

// Fate is what became of a start.
type Fate uint8

// The fates.
const (
	Over       Fate = iota // it has run, and Done is how it ended
	Unknown                // nobody can tell how it ended, or whether it was started
	NotAsked               // the runner is another one than was announced: it was not started
	NotStarted             // the system refused to start it
	Impossible             // it was not started, and can't be
)

// Outcome is how a start ended, as the runner tells.
type Outcome struct {
	Fate  Fate
	Done  journal.Done // where it is over; of one of unknown outcome only how long it ran
	Cause error        // of any other fate
	Short bool         // what was missing to start it comes back by itself
}

// Ended notes how a job's start ended, and which process it was, where that is known. The next turn
// takes it from there.
func (b *Board) Ended(j *Job, process journal.Started, outcome Outcome) Effects {
	if j.phase != Asked && j.phase != Running {
		return b.follow()
	}
	if j.phase == Asked {
		j.unsaid = process
	}
	b.move(j, Ended)
	b.end(j, outcome)
	return b.follow()
}

// end has the next turn take the outcome of a job.
func (b *Board) end(j *Job, outcome Outcome) {
	b.inbox.ended = append(b.inbox.ended, ended{j, outcome})
	b.effects.Turn = true
}

// renew has a job announced anew whose start did not happen, after a moment; or takes it back,
// where it is to stay.
func (b *Board) renew(j *Job, cause error) {
	b.move(j, Renewing)
	j.process = nil
	if b.stays(j) {
		b.takeBack(j)
		return
	}
	b.effects.Renewed = append(b.effects.Renewed, Renewal{j, cause})
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

// mostRefusals is how many starts of one job may be refused for want of something before nothing
// counts as startable.
const mostRefusals = 3

// notStarted takes back a job whose start the system has refused. What may be over in a moment is
// tried again first, and so is what another launcher than the one that is there now was refused.
func (b *Board) notStarted(j *Job, o Outcome, now time.Time) {
	old := j.launcher != b.launcher
	if old || o.Short && b.hitch == nil && j.refusals < mostRefusals {
		if !old {
			j.refusals++
		}
		b.renew(j, o.Cause)
		return
	}
	j.process = nil
	b.hitchOn(j, o, now)
	b.takeBack(j)
}

// Lost takes up a job of a former run that may have been started, and of which nobody has anything.
// The next turn ends it.
func (b *Board) Lost(old journal.Job) Effects {
	b.lose(old.ID, claimOf(old), old.Attempt, killedWhileItRan)
	return b.follow()
}

// LostClaim is Lost for a claim that only its row tells of.
func (b *Board) LostClaim(id int64, claim journal.Accepted, why string) Effects {
	b.lose(id, claim, 1, why)
	return b.follow()
}

func (b *Board) lose(id int64, claim journal.Accepted, attempt int, why string) {
	j := b.newJob(id, claim, attempt)
	j.lost = true
	b.move(j, Ended)
	b.end(j, Outcome{Fate: Unknown, Cause: errors.New(why)})
	if !b.mayRepeat(j) {
		b.note(slog.LevelWarn, "outcome of a job is unknown; it is reported as failed", j)
	}
}

// Adopt goes on with a process that a former worker has asked for; it holds a slot like any other.
// Where the journal does not know the process yet, it is known by Began or Ended.
func (b *Board) Adopt(old journal.Job, process Process) *Job {
	j := b.newJob(old.ID, claimOf(old), old.Attempt)
	first := Asked
	if old.Status == journal.StatusRunning {
		first = Running
	}
	b.move(j, first)
	j.process, j.began = process, old.Running
	return j
}

// Requeue goes on with a job that was announced and is known not to have been started.
func (b *Board) Requeue(old journal.Job) Effects {
	j := b.newJob(old.ID, claimOf(old), old.Attempt)
	if _, served := b.targets[old.Target]; served {
		b.enqueue(j)
		b.dispatch(j.target)
	} else {
		b.giveBack(j, notServed)
	}
	return b.follow()
}

// claimOf is the claim of a job that the journal knows.
func claimOf(j journal.Job) journal.Accepted {
	return journal.Accepted{Target: j.Target, Manual: j.Manual, Token: j.Token}
}
