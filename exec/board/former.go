package board

import (
	"errors"
	"log/slog"
	"time"

	"jobd/journal"
)

// killedWhileItRan is why nobody knows how a job ended, or whether it was started.
const killedWhileItRan = "the worker and its runner were killed, or the machine lost power, while it ran"

// killedWhileAsked is that of one that was a request.
const killedWhileAsked = "the worker was killed, or the machine lost power, while its request was with "

// TakeUp goes on with a job of a former run that has no process: none was started, or it is gone.
// never says that its start, if one was announced, did not happen.
//
//	claimed, or announced by its claim   the table tells whether the claim was won
//	announced, and never started         it is queued
//	else                                 the next turn ends it: nobody knows how it ended
func (b *Board) TakeUp(old journal.Job, never bool) Effects {
	starting := old.Status == journal.StatusStarting
	switch {
	case old.Status == journal.StatusAccepted, starting && old.Claimed:
		b.DoubtFormer(old.ID, claimOf(old), starting && !never)
	case starting && never:
		b.requeue(old)
	case old.Process != nil && old.Process.Address != "":
		b.lose(old, claimOf(old), killedWhileAsked+old.Process.Address)
	default:
		b.lose(old, claimOf(old), killedWhileItRan)
	}
	return b.follow()
}

// LostClaim ends a claim that only its row tells of.
func (b *Board) LostClaim(id int64, claim journal.Accepted, why string) Effects {
	b.lose(journal.Job{ID: id, Attempt: First(claim)}, claim, why)
	return b.follow()
}

// lose ends a start whose outcome nobody knows.
func (b *Board) lose(old journal.Job, claim journal.Accepted, why string) {
	j := b.newJob(old.ID, claim, old.Attempt)
	j.takeOver(old)
	b.move(j, Ended)
	b.end(ended{job: j, Outcome: Outcome{Fate: Unknown, Cause: errors.New(why)}})
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
	j.process, j.began, j.counted = process, old.Running.Time, true
	j.takeOver(old)
	return j
}

// takeOver takes over what the journal knows of a start of a former run.
func (j *Job) takeOver(old journal.Job) {
	j.cancelled, j.ends, j.executor = old.Cancelled, old.Ends, old.Executor
	j.said = old.Status == journal.StatusRunning
	j.timeout, j.killAfter = time.Duration(old.Timeout)*time.Second, time.Duration(old.KillAfter)*time.Second
	j.recovered = old.Attempt > First(j.claim)
}

// requeue goes on with a job that was announced and is known not to have been started. If its
// target is not served and this is a later attempt, the job ends as unknown, since the end of the attempt
// before is.
func (b *Board) requeue(old journal.Job) {
	served, claim := b.serves(old.Target), claimOf(old)
	if !served && old.Attempt > First(claim) {
		b.lose(old, claim, notServed)
		return
	}
	j := b.newJob(old.ID, claim, old.Attempt)
	j.recovered = old.Attempt > First(claim)
	b.takeIn(j)
}
