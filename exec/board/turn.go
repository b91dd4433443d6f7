package board

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"jobd/journal"
)

// Step is what a turn journals of one job.
type Step struct {
	Drafts []journal.Draft
	Events []journal.Event // what became of them
	Err    error           // why nothing of it was journalled

	job     *Job
	process bool        // Drafts[0] is the job's Started
	then    func(*Step) // what follows that, or that it could not be journalled
}

// Job is the job that the step is about.
func (s *Step) Job() *Job { return s.job }

// Turn is what is journalled in one append: all that has happened to jobs since the turn before.
type Turn struct {
	Steps []*Step
}

// Signal has the next turn journal a signal. It journals none for a job whose start is over, or was
// not asked for: the process that was meant is gone, though another may come.
func (b *Board) Signal(s Signal) Effects {
	if s.Job.phase != Asked && s.Job.phase != Running {
		b.signalled(s, ErrGone)
		return b.follow()
	}
	b.inbox.signals = append(b.inbox.signals, s)
	b.effects.Turn = true
	return b.follow()
}

// Gathers tells whether a turn should wait for more: a job has ended, and at least half of those that
// have a slot were announced together with it and have not, so that they are likely to end soon. It
// should not where enough have ended, a job gets a signal, or one has begun: a request waits until that is
// journalled.
func (b *Board) Gathers(enough int) bool {
	if len(b.inbox.signals) > 0 || len(b.inbox.cancels) > 0 || len(b.inbox.begun) > 0 || len(b.inbox.ended) >= enough {
		return false
	}
	return slices.ContainsFunc(b.inbox.ended, func(e ended) bool { return e.job.peers != nil && 2**e.job.peers >= b.slots })
}

// Turn empties the inbox. Jobs that have ended give their slots to the next ones, which are
// announced in the same turn, unless no instance of the runner is there to start them.
func (b *Board) Turn(now time.Time, instance string) (Turn, Effects) {
	var turn Turn
	for _, e := range b.inbox.ended {
		turn.add(b.outcome(e, now))
	}
	for _, j := range b.inbox.begun {
		j.countStart(now)
		if j.phase == Running && j.unsaid != nil {
			turn.add(j.step(b.begun))
		}
	}
	for _, s := range b.inbox.signals {
		if s.Job.phase == Asked || s.Job.phase == Running {
			turn.add(s.Job.step(func(step *Step) { b.signalled(s, step.Err) }, journal.Draft{Job: s.Job.id, Payload: s.Event}))
		} else {
			b.signalled(s, ErrGone)
		}
	}
	for _, c := range b.inbox.cancels {
		turn.add(b.cancelStep(c, now))
	}
	for _, j := range b.inbox.leaving {
		turn.add(b.leave(j))
	}
	clear(b.inbox.ended)
	b.inbox = inbox{due: b.inbox.due, ended: b.inbox.ended[:0]}
	if instance != "" {
		peers := new(int)
		announced := func(s *Step) { b.announced(s, peers) }
		for _, j := range b.inbox.due {
			b.move(j, Announcing)
			turn.add(&Step{job: j, Drafts: []journal.Draft{b.running(j, instance, false)}, then: announced})
		}
		b.inbox.due = nil
	}
	return turn, b.follow()
}

func (t *Turn) add(s *Step) {
	if s != nil {
		t.Steps = append(t.Steps, s)
	}
}

// step makes a step of some drafts. If the journal does not know the job's process yet, the event that
// names it comes first.
func (j *Job) step(then func(*Step), drafts ...journal.Draft) *Step {
	s := &Step{job: j, Drafts: drafts, then: then}
	if j.unsaid != nil {
		s.process = true
		s.Drafts = append([]journal.Draft{{Job: j.id, Payload: *j.unsaid}}, drafts...)
		j.unsaid = nil
	}
	return s
}

// Journalled does what follows a turn whose steps were journalled, or could not be.
func (b *Board) Journalled(turn Turn) Effects {
	for _, s := range turn.Steps {
		if s.process {
			b.known(s)
		}
		s.then(s)
	}
	return b.follow()
}

// signalled tells whether a signal is journalled.
func (b *Board) signalled(s Signal, err error) {
	s.Err = err
	s.Job.ends = s.Job.ends || err == nil && s.Event.Ends
	s.Job.stopped = s.Job.stopped || err == nil && s.Event.By == ByShutdown
	b.effects.Signalled = append(b.effects.Signalled, s)
}

// begun notes that a job's process is journalled.
func (b *Board) begun(s *Step) {
	if s.Err != nil {
		b.noteError("job runs, but its process could not be journalled", s)
	}
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
	b.tell(j.id, Told{End: &end})
	b.remove(j)
}

// announced notes that a job's start is journalled. Where its target was paused meanwhile, say, it
// is not to happen.
func (b *Board) announced(s *Step, peers *int) {
	j := s.job
	if s.Err != nil {
		if !b.failed {
			b.noteTaken(j)
		}
		b.drop(j, b.whyNotJournalled())
		return
	}
	b.move(j, Announced)
	j.announce(s.Events[0], peers)
	j.said = false
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
		b.noteError("a job was neither started nor given back; the worker's next start gives it back", s)
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

// changedByOthers is why a job is given up whose claim the mirror found lost.
const changedByOthers = "the job's row was changed by somebody else"

// GiveUp gives a job back that waits for its row to say that it runs. It is false where the start stands no
// more, and of a job that can't be given back.
func (b *Board) GiveUp(s Start, why string) (given bool, e Effects) {
	if given = s.stands(Announced) && s.mayLeave(); given {
		b.giveBack(s.Job, why)
		b.dispatch(s.Job.target)
	}
	return given, b.follow()
}

// Taken gives up a job that waits for its start, and whose row is somebody else's by now, as the
// journal knows.
func (b *Board) Taken(s Start) Effects {
	if s.stands(Announced) {
		b.noteTaken(s.Job)
		b.drop(s.Job, changedByOthers)
	}
	return b.follow()
}

func (b *Board) noteTaken(j *Job) {
	b.note(slog.LevelWarn, "job is not started: its row was changed by somebody else", j)
}

// Ask is true where the worker asks for the start now. It is false where the start stands no more; a
// job whose target was paused meanwhile, say, is taken back.
func (b *Board) Ask(s Start) (ask bool, e Effects) {
	if s.stands(Announced) {
		if ask = !b.stays(s.Job); ask {
			b.move(s.Job, Asking)
		} else {
			b.takeBack(s.Job)
		}
	}
	return ask, b.follow()
}

// Asked notes that the runner was asked for a start. process is what it gave; nil where Ended
// follows at once. It tells whether the start is to be taken back, since the target was paused meanwhile, or
// the worker stops.
func (b *Board) Asked(j *Job, process Process) (unwanted bool) {
	b.move(j, Asked)
	j.process = process
	j.unwanted = process != nil && (b.stopping || j.target.paused)
	return j.unwanted
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

// end has the next turn take the outcome of a job.
func (b *Board) end(e ended) {
	b.inbox.ended = append(b.inbox.ended, e)
	b.effects.Turn = true
	if e.job.peers != nil {
		*e.job.peers--
	}
}

// renew has a job announced anew whose start did not happen, after a moment; or takes it back, where
// it must not start for now.
func (b *Board) renew(j *Job, cause error) {
	r := Renewal{Job: j, Cause: cause}
	if j.unwanted {
		r = Renewal{Job: j, After: tookBack}
	}
	b.move(j, Renewing)
	j.process, j.unsaid = nil, nil
	j.unwanted, j.ends, j.stopped = false, false, false
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

// outcome takes the end of a job's start. It gives nothing where that is not to be journalled.
func (b *Board) outcome(e ended, now time.Time) *Step {
	j, o := e.job, e.Outcome
	done, fate := o.Done, j.fate(o.Fate)
	if !b.serves(j.target.name) && (fate == NotStarted || fate == NotAsked) {
		if j.mayLeave() {
			j.process, j.unsaid = nil, nil
			b.giveBack(j, notServed)
			return nil
		}
		fate, o = Unknown, Outcome{Fate: Unknown, Cause: errors.New(notServed)}
	}
	switch fate {
	case Over:
		if e.ran {
			b.ran(j, now)
			j.countStart(now)
		}
	case NotStarted:
		b.notStarted(j, o, now)
		return nil
	case NotAsked:
		b.renew(j, o.Cause)
		return nil
	case Unknown:
		if b.mayRepeat(j) {
			return b.repeat(j, o.Cause)
		}
		done = b.unknownOutcome(j, o)
	case Impossible:
		done = failure(o.Cause.Error())
	}
	if j.stopped && done.Result != "ok" {
		why := journal.EndedByStop(b.config.Worker)
		if done.Note = joined(why, done.Note); fate == Unknown { // which comes first
			done.Reason = joined(done.Reason, why)
		} else {
			done.Reason = joined(why, done.Reason)
		}
	}
	b.followEnd(j, &done, o.Fate == Unknown, now)
	if j.cancelled != nil {
		done = cancelledDone(done, j.cancelled.By)
	}
	done.Token, done.Finished = j.claim.Token, finished(j.began, done.Elapsed, now)
	s := j.step(b.finished, journal.Draft{Job: j.id, Payload: done})
	b.move(j, Ending)
	j.countEnd(done.Result == "ok" || j.cancelled != nil, now)
	b.dispatch(j.target)
	return s
}

// ByShutdown is on whose behalf a worker that stops sends signals. What somebody else sends ends the
// run: it is not tried again.
const ByShutdown = "shutdown"

// On whose behalf jobs of unknown outcome are started once more.
const (
	byRequeue  = "on_crash = requeue"
	byAttempts = "attempts"
)

// repeat queues a job of unknown outcome for its next attempt, which is announced behind this step,
// in this turn or a later one.
func (b *Board) repeat(j *Job, cause error) *Step {
	b.note(slog.LevelWarn, "outcome of a job is unknown; it is started again", j, "attempt", j.attempt+1, "reason", cause)
	again := func(*Step) {} // where the journal refuses this, it refuses the next announcement, too, which gives the job up
	by := byRequeue
	if !b.config.Requeue {
		by = byAttempts
	}
	s := j.step(again, journal.Draft{Job: j.id, Payload: journal.Requeued{Reason: cause.Error(), By: by, Token: j.claim.Token}})
	b.move(j, Gone)
	next := b.newJob(j.id, j.claim, j.attempt+1)
	next.recovered = true
	b.takeIn(next)
	return s
}

// mayRepeat tells whether a job of unknown outcome may be started once more. One that a Gearman worker had may as well
// where attempts are left: its clients count on that.
func (b *Board) mayRepeat(j *Job) bool {
	again := b.config.Requeue && j.attempt < b.mostStarts(j.claim) || j.executor == gearman && j.attempt < b.said(j.claim)
	return b.serves(j.target.name) && j.cancelled == nil && !j.ends && again
}

// gearman is the executor of jobs that Gearman workers run.
const gearman = "gearman"

// mostRefusals is how many starts of one job must be refused, in a row, to show that no job can be
// started.
const mostRefusals = 3

// tookBack is how long a start waits that somebody took back, before it is announced anew.
const tookBack = 100 * time.Millisecond

// notStarted takes back a job whose start was refused. If the cause may be over in a moment, it has the
// job tried again first. A start that the worker took back while it waited was refused by nobody, and
// counts as no refusal.
func (b *Board) notStarted(j *Job, o Outcome, now time.Time) {
	s := j.target.starter
	switch {
	case j.unwanted:
		b.renew(j, o.Cause)
	case s.why == "" && j.refusals+1 < mostRefusals && (o.Short || s.Own()):
		j.refusals++
		b.renew(j, o.Cause)
	default:
		j.process, j.unsaid, j.refusals = nil, nil, 0
		b.fails(j, o, now)
		if j.mayLeave() && !b.stopping {
			b.giveBack(j, s.why)
		} else {
			b.takeBack(j)
		}
	}
}

// failure is the outcome of a job that nobody saw ending, or that the runner will not start.
func failure(reason string) journal.Done {
	text := []byte("jobd: " + reason + "\n")
	return journal.Done{Result: "fail", Reason: reason, Stderr: journal.Output{Kept: text, Size: int64(len(text))}}
}

// unknownOutcome is the outcome of a job that nobody saw ending: what is said of it stands in stderr
// before what the job has written.
func (b *Board) unknownOutcome(j *Job, o Outcome) journal.Done {
	reason := o.Cause.Error()
	if b.config.Requeue {
		reason = fmt.Sprintf("%s; attempt %d of %d", reason, j.attempt, b.mostStarts(j.claim))
	}
	done := failure(journal.UnknownOutcome + reason)
	done.Elapsed, done.Stdout = o.Done.Elapsed, o.Done.Stdout
	done.Stderr = journal.Output{
		Kept: append(done.Stderr.Kept, o.Done.Stderr.Kept...),
		Size: done.Stderr.Size + o.Done.Stderr.Size,
	}
	return done
}

// clockSlack is how far the clock may be behind the end of a job that it timed, before it counts as
// set back.
const clockSlack = time.Second

// finished is when a job ended that began at a time and ran for so many microseconds, where the
// clock has been set back since and tells an earlier time; else 0.
func finished(began time.Time, elapsed int64, now time.Time) int64 {
	end := began.Add(time.Duration(elapsed) * time.Microsecond)
	if began.IsZero() || elapsed == 0 || !now.Before(end.Add(-clockSlack)) {
		return 0
	}
	return end.UnixMicro()
}
