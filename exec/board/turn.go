package board

import (
	"errors"
	"log/slog"
	"time"

	"jobd/journal"
)

// Step is what a turn journals of one job.
type Step struct {
	Drafts []journal.Draft
	Events []journal.Event // what became of them
	Err    error           // why nothing of it was journalled

	what    what
	job     *Job
	signal  *Signal
	cancel  *Cancel
	process bool // the job's process is the first that is journalled
}

// Job is the job that the step is about.
func (s *Step) Job() *Job { return s.job }

// what a step is about.
type what uint8

const (
	begin    what = iota // the job runs
	finish               // it has ended
	repeat               // why it is to be started once more
	signal               // its process is to be signalled
	cancel               // it runs, and is to end
	release              // it is given back
	announce             // it is about to be started
)

// Turn is what is journalled in one append: all that has happened to jobs since the turn before.
type Turn struct {
	Steps []*Step
	Ends  int           // jobs that have ended
	Ran   time.Duration // for how long they ran, together
}

// Signal has the next turn journal a signal. There is none for a job whose start is over, or was not
// asked for: the process that was meant is gone, though another may come. So each that a turn journals
// was counted in the start which it is for: a further start needs a turn of its own.
func (b *Board) Signal(s Signal) Effects {
	if s.Job.phase != Asked && s.Job.phase != Running {
		s.Err = ErrGone
		b.effects.Signalled = append(b.effects.Signalled, s)
		return b.follow()
	}
	if s.ends() {
		s.Job.halted++
	}
	b.inbox.signals = append(b.inbox.signals, s)
	b.effects.Turn = true
	return b.follow()
}

// Crowded tells whether so much has come together for a turn that more is not to be waited for:
// half of the jobs that have a slot have ended, or enough of them, or somebody is to be signalled.
func (b *Board) Crowded(enough int) bool {
	if len(b.inbox.signals) > 0 || len(b.inbox.cancels) > 0 {
		return true
	}
	return len(b.inbox.ended) >= min((b.slots+1)/2, enough)
}

// Thinned tells whether half of the jobs of a target that have a slot have ended.
func (b *Board) Thinned() bool {
	for _, e := range b.inbox.ended {
		if t := e.job.target; 2*t.in[Ended] >= t.active {
			return true
		}
	}
	return false
}

// Turn empties the inbox. Jobs that have ended give their slots to the next ones, which are
// announced in the same turn, unless no instance of the runner is there to start them.
func (b *Board) Turn(now time.Time, instance string) (Turn, Effects) {
	var turn Turn
	for _, e := range b.inbox.ended {
		turn.Ran += time.Duration(e.Done.Elapsed) * time.Microsecond
		turn.add(b.outcome(e, now))
	}
	for _, j := range b.inbox.begun {
		j.countStart(now)
		if j.phase == Running && j.unsaid != nil {
			turn.add(j.step(begin))
		}
	}
	for _, s := range b.inbox.signals {
		if s.Job.phase == Asked || s.Job.phase == Running {
			step := s.Job.step(signal, journal.Draft{Job: s.Job.id, Payload: s.Event})
			step.signal = &s
			turn.add(step)
		} else {
			s.Err = ErrGone
			b.effects.Signalled = append(b.effects.Signalled, s)
		}
	}
	for _, c := range b.inbox.cancels {
		turn.add(b.cancelStep(c, now))
	}
	for _, j := range b.inbox.leaving {
		turn.add(j.leave())
	}
	clear(b.inbox.ended)
	b.inbox = inbox{due: b.inbox.due, ended: b.inbox.ended[:0]}
	if instance != "" {
		for _, j := range b.inbox.due {
			b.move(j, Announcing)
			turn.add(&Step{what: announce, job: j, Drafts: []journal.Draft{b.running(j, instance, false)}})
		}
		b.inbox.due = nil
	}
	return turn, b.follow()
}

func (t *Turn) add(s *Step) {
	if s != nil {
		t.Steps = append(t.Steps, s)
		if s.what == finish {
			t.Ends++
		}
	}
}

// step is a step with some drafts, behind what the journal does not know yet of the job's process.
func (j *Job) step(about what, drafts ...journal.Draft) *Step {
	s := &Step{what: about, job: j, Drafts: drafts}
	if j.unsaid != nil {
		s.process = true
		s.Drafts = append([]journal.Draft{{Job: j.id, Payload: *j.unsaid}}, drafts...)
		j.unsaid = nil
	}
	return s
}

// Journalled does what is to follow a turn whose steps were journalled, or could not be.
func (b *Board) Journalled(turn Turn) Effects {
	for _, s := range turn.Steps {
		if s.process {
			b.known(s)
		}
		switch s.what {
		case signal:
			s.signal.Err = s.Err
			s.job.ends = s.job.ends || s.Err == nil && s.signal.Event.Ends
			if s.signal.ends() {
				b.unhalt(s)
			}
			b.effects.Signalled = append(b.effects.Signalled, *s.signal)
		case cancel:
			b.marked(s)
		case release:
			b.left(s)
		case finish:
			b.finished(s)
		case announce:
			b.announced(s)
		case begin:
			if s.Err != nil {
				b.noteError("job runs, but its process could not be journalled", s)
			}
		case repeat: // where that contradicts the journal the next start does too, which gives the job up
		}
	}
	return b.follow()
}

// finished takes a job whose end is journalled off the board.
func (b *Board) finished(s *Step) {
	j := s.job
	if s.Err != nil {
		b.noteError("outcome of a job could not be journalled", s)
		b.drop(j, b.whyNotJournalled())
		return
	}
	j.target.unseenFrom(s.Events[len(s.Events)-1].Seq)
	b.effects.Forget = append(b.effects.Forget, j)
	end := s.Events[len(s.Events)-1]
	if done, is := end.Payload.(journal.Done); is && done.Again != nil {
		b.effects.Coming = append(b.effects.Coming, Coming{j.target.name, done.Again.RunAt, end.Seq})
	}
	if j.client != nil {
		b.effects.Answers = append(b.effects.Answers, Answer{j.client, end})
	}
	b.remove(j)
}

// announced notes that a job's start is journalled. Where its target was paused meanwhile, say, it
// is not to happen.
func (b *Board) announced(s *Step) {
	j := s.job
	if s.Err != nil {
		if !b.failed {
			b.noteTaken(j)
		}
		b.drop(j, b.whyNotJournalled())
		return
	}
	b.move(j, Announced)
	j.announced, j.began, j.said = s.Events[0].Seq, s.Events[0].Time, false
	if b.stays(j) {
		b.takeBack(j)
		return
	}
	b.effects.Start = append(b.effects.Start, Start{Job: j, Seq: j.announced})
}

// whyNotJournalled is why something could not be journalled of a job: it contradicts what the
// journal holds, or the journal takes nothing any more.
func (b *Board) whyNotJournalled() string {
	if b.failed {
		return "the journal failed"
	}
	return changedByOthers
}

// left takes a job off the board that was given back, or is somebody else's by now.
func (b *Board) left(s *Step) {
	why := s.job.reason
	if c := s.job.leaves; c != nil && s.Err == nil {
		b.cancelled(s)
		return
	} else if c != nil {
		c.Err = s.Err
		b.effects.Cancelled = append(b.effects.Cancelled, *c)
	}
	if contradicts(s.Err) {
		why = changedByOthers
	} else if s.Err != nil {
		b.noteError("a job was not started, and not given back; the next start does it", s)
	} else {
		s.job.target.unseenFrom(s.Events[0].Seq)
	}
	b.drop(s.job, why)
}

// noteError logs why nothing of a step was journalled.
func (b *Board) noteError(text string, s *Step) {
	b.effects.Notes = append(b.effects.Notes, Note{slog.LevelError, text, []any{"job", s.job.id, "error", s.Err}})
}

// contradicts tells whether an error says that the journal holds otherwise.
func contradicts(err error) bool {
	var illegal *journal.IllegalError
	return errors.As(err, &illegal)
}
