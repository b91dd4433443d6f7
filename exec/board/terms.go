package board

import (
	"math/rand/v2"
	"time"

	"jobd/journal"
)

// Timing is what the configuration says about time. It may be replaced while jobs run: what is
// decided from then on is decided by the new one.
type Timing struct {
	Terms      map[string]Terms // by target; one that is not there has none of its own
	Zone       *time.Location   // of schedules whose rows name none; nil: UTC
	SkipMissed bool             // a scheduled run that was missed is not made up for
	Executor   string           // what runs the jobs of targets that have no launcher of their own; "": a process for each
}

// Terms are what the configuration says of the jobs of one target, as far as the board decides by it.
type Terms struct {
	Attempts    int           // starts of a run in all; 0: the configuration does not say
	First, Most time.Duration // wait between them, at first and at most; 0: defaultFirst and defaultMost
	Timeout     time.Duration // of one start; 0: no limit
	KillAfter   time.Duration // between SIGTERM and SIGKILL; 0: defaultKill
	Own         bool          // it has a launcher of its own
	Executor    string        // what that runs jobs with, as Timing.Executor
}

// What holds where the configuration of a target says nothing, but a row of it wants it.
const (
	defaultFirst = 10 * time.Second
	defaultMost  = time.Hour
	defaultKill  = 10 * time.Second
)

// SetTiming replaces what the configuration says about time. That jobs of a target could not be
// started, as their executor said, is forgotten where it has another one now.
func (b *Board) SetTiming(t Timing) Effects {
	former := b.timing
	b.timing = t
	for _, target := range b.targets {
		if former.executor(target.name) != t.executor(target.name) {
			b.able(target)
			b.unrefused(target)
		}
	}
	return b.follow()
}

// executor is what runs the jobs of a target.
func (t Timing) executor(target string) string {
	if own := t.Terms[target]; own.Own {
		return own.Executor
	}
	return t.Executor
}

// SetAhead tells how far the clock of the table's server is ahead of the worker's. Plans are made by
// the server's, because that one says when a row is due.
func (b *Board) SetAhead(ahead time.Duration) { b.ahead = ahead }

// planTime is what the clock of the table's server says, in seconds since 1970.
func (b *Board) planTime(now time.Time) int64 { return now.Add(b.ahead).Unix() }

// wait is how long a run that failed waits for its next attempt, in seconds: First, twice as long
// after each further attempt, Most at most. luck, from 0 up to 1, makes it up to a fifth shorter or
// longer, so that rows which failed together are not all tried again together.
func (t Terms) wait(attempt int64, luck float64) int64 {
	first, most := t.First, t.Most
	if first <= 0 {
		first, most = defaultFirst, defaultMost
	}
	most = max(most, first)
	length := first
	for n := int64(1); n < attempt && length < most; n++ {
		length = min(2*length, most)
	}
	length = time.Duration(float64(length) * (1 + (2*luck-1)/5))
	return max(min(seconds(length.Round(time.Second)), seconds(most)), 1)
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// mostRetryAfter is the longest time, in seconds, for which a service can put off the next attempt.
const mostRetryAfter = 24 * 60 * 60

// nextWait is wait for the next attempt of a job, with some luck; or what its service has said.
func (b *Board) nextWait(j *Job, done journal.Done) int64 {
	if done.RetryAfter > 0 {
		return min(done.RetryAfter, mostRetryAfter)
	}
	return b.timing.Terms[j.target.name].wait(int64(j.attempt), rand.Float64())
}

// said is how often the run of a claim is started at most, as its row or else its target says; 0
// where neither does.
func (b *Board) said(claim journal.Accepted) int {
	if claim.Plan != nil && claim.Plan.MaxAttempts > 0 {
		return int(min(claim.Plan.MaxAttempts, mostAttempts))
	}
	return b.timing.Terms[claim.Target].Attempts
}

// mostStarts is how often a job of unknown outcome is started at most, where it is started again at
// all. A manual one has the starts that the configuration gives to all.
func (b *Board) mostStarts(claim journal.Accepted) int {
	if claim.Manual {
		return before(claim) + b.config.MaxAttempts
	}
	if n := b.said(claim); n > 0 {
		return n
	}
	return b.config.MaxAttempts
}

// mostAttempts bounds attempts: the column takes no more.
const mostAttempts = 1<<16 - 1

// limits are for how long a start of a job may run, and how much longer it has behind SIGTERM.
func (b *Board) limits(j *Job) (timeout, killAfter time.Duration) {
	terms := b.timing.Terms[j.target.name]
	timeout, killAfter = terms.Timeout, terms.KillAfter
	if j.claim.Plan != nil && j.claim.Plan.Timeout > 0 {
		timeout = time.Duration(j.claim.Plan.Timeout) * time.Second
	}
	if killAfter <= 0 {
		killAfter = defaultKill
	}
	if timeout <= 0 {
		return 0, 0
	}
	whole := func(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
	return whole(timeout), whole(killAfter)
}

// before is how many starts of the same run earlier claims have made.
func before(claim journal.Accepted) int {
	if claim.Plan == nil {
		return 0
	}
	return int(claim.Plan.Attempts)
}

// First is the number of the first start that a claim makes.
func First(claim journal.Accepted) int { return before(claim) + 1 }

// MostAttempts is how often the run of a job is started at most, whatever becomes of it.
func (b *Board) MostAttempts(j *Job) int {
	switch n := b.said(j.claim); {
	case j.claim.Manual:
		return 1
	case n > 0:
		return n
	case b.config.Requeue:
		return max(b.config.MaxAttempts, 1)
	}
	return 1
}
