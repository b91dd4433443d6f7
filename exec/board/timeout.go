package board

import (
	"fmt"
	"time"

	"jobd/journal"
)

// TimedOut notes that the worker is about to end a job itself, because it has run for too long and
// its runner, which would have done that, is gone. That is how it ends then, though nobody sees its
// exit code.
func (b *Board) TimedOut(j *Job) { j.timedOut = true }

// timeoutDone is the end of a job that the worker has ended because it ran for too long.
func (j *Job) timeoutDone(o Outcome) journal.Done {
	done := o.Done
	why := fmt.Sprintf("it ran longer than its timeout of %s", j.timeout)
	done.Result, done.Timeout, done.Reason, done.Note = "fail", seconds(j.timeout), why, why
	return done
}

// Overdue is when a start of a job has run for too long; zero where it has no limit.
func Overdue(old journal.Job) time.Time {
	if old.Timeout <= 0 {
		return time.Time{}
	}
	return old.Running.Add(old.Timeout)
}
