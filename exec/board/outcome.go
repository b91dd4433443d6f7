package board

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"jobd/journal"
)

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
		givenUpBy(&done, j.givenUp)
	case NotStarted:
		b.notStarted(j, o, now)
		return nil
	case NotAsked:
		r := Renewal{Job: j, Cause: o.Cause}
		if j.unwanted {
			r = Renewal{Job: j, After: tookBack}
		}
		b.renew(j, r)
		return nil
	case Unknown:
		if b.mayRepeat(j) {
			return b.repeat(j, o.Cause)
		}
		done = b.unknownOutcome(j, o)
	case Impossible:
		done = failure(o.Cause.Error())
	}
	b.followEnd(j, &done, o.Fate == Unknown, now)
	if j.cancelled != nil {
		done = cancelledDone(done, j.cancelled.By)
	}
	done.Token, done.Finished = j.claim.Token, finished(j.began, done.Elapsed, now)
	s := j.step(finish, journal.Draft{Job: j.id, Payload: done})
	b.move(j, Ending)
	j.countEnd(done.Result == "ok" || j.cancelled != nil, now)
	b.dispatch(j.target)
	return s
}

// byRequeue is on whose behalf jobs of unknown outcome are started once more.
const byRequeue = "on_crash = requeue"

// repeat queues a job of unknown outcome for its next attempt, which is announced behind this step,
// in this turn or a later one.
func (b *Board) repeat(j *Job, cause error) *Step {
	b.note(slog.LevelWarn, "outcome of a job is unknown; it is started again", j, "attempt", j.attempt+1, "reason", cause)
	s := j.step(repeat, journal.Draft{Job: j.id, Payload: journal.Requeued{
		Reason: cause.Error(), By: byRequeue, Token: j.claim.Token,
	}})
	b.move(j, Gone)
	next := b.newJob(j.id, j.claim, j.attempt+1)
	next.client, next.recovered = j.client, true
	b.enqueue(next)
	b.dispatch(next.target)
	return s
}

// mayRepeat tells whether a job of unknown outcome may be started once more.
func (b *Board) mayRepeat(j *Job) bool {
	return b.serves(j.target.name) && j.cancelled == nil && !j.ends && b.config.Requeue && j.attempt < b.mostStarts(j.claim)
}

// mostRefusals is how many starts of one job may be refused for want of something before nothing
// counts as startable.
const mostRefusals = 3

// tookBack is how long a start that was taken back waits, for whoever took it back, before it is announced
// anew.
const tookBack = 100 * time.Millisecond

// notStarted takes back a job whose start the system has refused. What may be over in a moment is
// tried again first, and so is what another launcher than the one that is there now was refused.
// Where the target has a launcher of its own, or an executor other than the system itself, that is
// the matter of its jobs only: they keep their slots and are tried again, ever later, and nothing
// else is held up. When the executor says that it can start none, they are given back (unable.go).
// One that was taken back while it waited was refused by nobody.
func (b *Board) notStarted(j *Job, o Outcome, now time.Time) {
	old, own := j.launcher != b.launcher, j.executor != "" || b.timing.Terms[j.target.name].Own && !o.Short
	if j.unwanted && own {
		b.tellsNothing(j, now)
		b.renew(j, Renewal{Job: j, After: tookBack})
		return
	}
	if old || own || o.Short && b.hitch == nil && j.refusals < mostRefusals {
		if own {
			b.tellsNothing(j, now)
		}
		r := Renewal{Job: j, Cause: o.Cause}
		if !old {
			j.refusals++
		}
		if !old && own {
			r.After = b.refuses(j, o, now)
		}
		b.renew(j, r)
		return
	}
	j.process = nil
	b.hitchOn(j, o, now)
	b.takeBack(j)
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
	done := failure("outcome unknown: " + reason)
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
