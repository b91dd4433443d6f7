package board

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"jobd/exec/schedule"
	"jobd/journal"
)

// What a claim does with a row that says something about time: it runs it, plans it anew without
// running it, or, where the row says what can't be, marks it as ignored and tells why.

// plan is what a claim makes of what a row says about time. Of bad and again one is set, or none.
type plan struct {
	bad       string         // why the row can't be run as it is; "" where it can
	again     *journal.Again // it is not run, but planned anew
	reason    string         // why that is so
	plannedAt int64          // the planned start of the run
}

const (
	// lateAfter is how many seconds behind its planned time a scheduled run is missed.
	lateAfter = 300
	// longestTimeout is a hundred years.
	longestTimeout = 36500 * 24 * 60 * 60
)

// weigh decides what a claim does with a row that waits or is due.
func (b *Board) weigh(row journal.Row, now int64) (p plan) {
	said := *row.Plan
	delayed := row.Status == journal.RowDelayed
	if p.bad = unfit(said, delayed); p.bad != "" {
		return p
	}
	switch {
	case !b.config.Delays:
	case said.PlannedAt != 0:
		p.plannedAt = said.PlannedAt
	case delayed && said.RunAt != 0:
		p.plannedAt = said.RunAt
	default:
		p.plannedAt = now
	}
	if !delayed || said.Schedule == "" {
		return p
	}
	times, zone, err := b.timing.read(said)
	if err != nil {
		p.bad = err.Error()
		return p
	}
	planned := max(said.RunAt, said.PlannedAt) // what is run by hand is no later than that
	_, every := times.Every()
	switch {
	case said.RunAt == 0 && every:
		p.plannedAt = now
	case said.RunAt == 0:
		p.replan(times.Next(now, zone), said, "its schedule is planned")
	case said.Attempts == 0 && b.timing.SkipMissed && missed(times, zone, planned, now):
		late := time.Duration(now-planned) * time.Second
		p.replan(times.Following(p.plannedAt, now, zone), said,
			fmt.Sprintf("it was missed: planned for %s, found %s later", utc(p.plannedAt), late))
	}
	return p
}

// replan has the row planned for a time instead of being run.
func (p *plan) replan(next int64, said journal.Plan, reason string) {
	if next == 0 {
		p.bad = fmt.Sprintf("schedule %q has no further time before the year 2100", said.Schedule)
		return
	}
	p.again, p.reason = &journal.Again{RunAt: next, PlannedAt: next, Why: journal.AgainSchedule}, reason
}

// missed tells whether a scheduled run is met too late: after the planned time that follows its own,
// or more than lateAfter behind it.
func missed(times *schedule.Schedule, zone *time.Location, planned, now int64) bool {
	following := times.Following(planned, planned, zone)
	return now > planned+lateAfter || following != 0 && now > following
}

// read reads the schedule of a row, and the zone that it is meant in.
func (t Timing) read(said journal.Plan) (times *schedule.Schedule, zone *time.Location, err error) {
	if times, err = schedule.Parse(said.Schedule); err != nil {
		return nil, nil, err
	}
	if zone = t.Zone; said.Zone != "" {
		zone, err = schedule.Zone(said.Zone)
	}
	return times, zone, err
}

// unfit tells what is wrong with the numbers of a row, and with its schedule and zone; "" where
// nothing is. When it is due counts only where it is delayed.
func unfit(said journal.Plan, delayed bool) string {
	if !delayed {
		said.RunAt = 0
	}
	const instant = "seconds since 1970, not milliseconds, and before the year 2100"
	for _, n := range []struct {
		column      string
		value, most int64
		is          string
	}{
		{"run_at", said.RunAt, journal.Century - 1, instant},
		{"planned_at", said.PlannedAt, journal.Century - 1, instant},
		{"attempts", said.Attempts, math.MaxInt64, "how many starts there were, from 0"},
		{"max_attempts", said.MaxAttempts, math.MaxInt64, "how many starts there may be; 0 or NULL: as the configuration says"},
		{"timeout", said.Timeout, longestTimeout, "seconds, up to a hundred years; 0 or NULL: as the configuration says"},
	} {
		if n.value < 0 || n.value > n.most {
			return fmt.Sprintf("%s = %d: it is %s", n.column, n.value, n.is)
		}
	}
	if said.Schedule == "" {
		return ""
	}
	if _, _, err := (Timing{}).read(said); err != nil {
		return err.Error()
	}
	return ""
}

func utc(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }

// Timing is what the configuration says about time. It may be replaced while jobs run: what is
// decided from then on is decided by the new one.
type Timing struct {
	Terms      map[string]Terms // by target; one that is not there has none of its own
	Zone       *time.Location   // of schedules whose rows name none; nil: UTC
	SkipMissed bool             // a scheduled run that was missed is not made up for
	// Executor: what runs the jobs of targets that have no launcher of their own; "": a process for
	// each.
	Executor string
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

// SetTiming replaces what the configuration says about time and launchers. What could not be started
// before is tried again, unless an executor that stays has said that it can start nothing.
func (b *Board) SetTiming(t Timing) Effects {
	former := b.timing
	b.timing = t
	if b.launcher.why != "" {
		b.forget(&b.launcher)
	}
	for _, target := range b.targets {
		if s := target.starter; s.why != "" && (!s.told || former.executor(target.name) != t.executor(target.name)) {
			b.forget(s)
		}
		b.equip(target)
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

// retry is when the next attempt of a run is due that failed now: First later, twice as long after each
// further attempt, Most at most, a fifth shorter or longer, so that rows which failed together are not
// all tried again together. luck is from 0 up to 1. The table has whole seconds: where none is within
// that fifth, it is the next one.
func (t Terms) retry(now time.Time, attempt int64, luck float64) int64 {
	first, most := t.First, t.Most
	if first <= 0 {
		first, most = defaultFirst, defaultMost
	}
	most = max(most, first)
	length := first
	for n := int64(1); n < attempt && length < most; n++ {
		length = min(2*length, most)
	}
	soonest := fullSecond(now.Add(length - length/5))
	latest := now.Add(min(length+length/5, most)).Unix()
	if latest <= soonest {
		return soonest
	}
	return min(soonest+int64(luck*float64(latest-soonest+1)), latest)
}

// fullSecond is the first one from a time on, in seconds since 1970.
func fullSecond(at time.Time) int64 { return at.Add(time.Second - 1).Unix() }

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// mostRetryAfter is the longest time, in seconds, for which a service can put off the next attempt.
const mostRetryAfter = 24 * 60 * 60

// nextTry is when the next attempt of a job is due, by the server's clock: behind its backoff, with some
// luck, or when its service has said.
func (b *Board) nextTry(j *Job, done journal.Done, now time.Time) int64 {
	now = now.Add(b.ahead)
	if wait := time.Duration(min(done.RetryAfter, mostRetryAfter)) * time.Second; wait > 0 {
		return fullSecond(now.Add(wait))
	}
	return b.timing.Terms[j.target.name].retry(now, int64(j.attempt), rand.Float64())
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
	switch n := b.said(claim); {
	case claim.Manual:
		return before(claim) + b.config.MaxAttempts
	case n > 0:
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
	if n := b.said(j.claim); j.claim.Manual || n <= 0 && !b.config.Requeue {
		return 1
	}
	return max(b.mostStarts(j.claim), 1)
}

// Spent tells why a job that waited for its next attempt is not started: fewer starts are allowed by
// now than it has had. It is "" of any other.
func (b *Board) Spent(j *Job) string {
	most := b.MostAttempts(j)
	if j.claim.From != journal.RowDelayed || j.recovered || before(j.claim) == 0 || j.attempt <= most {
		return ""
	}
	return fmt.Sprintf("no attempt is left: it has had %d, and max_attempts is %d by now", before(j.claim), most)
}

// runEnd is the end of a run, with all that decides what follows it.
type runEnd struct {
	claim    journal.Accepted
	attempt  int    // the number of the start that has ended
	failed   bool   // it did not end well
	final    bool   // it is not tried again, whatever attempts are left
	attempts int    // starts of the run in all
	retry    int64  // when the next attempt would be due
	timing   Timing // that schedules are read by
	now      int64  // seconds since 1970, by the clock of the table's server
}

// again decides what follows: the row comes back for another attempt, or for its next run, or not at
// all. A retry must come before the next planned time, which would overtake it otherwise. note tells
// why a row that has a schedule does not come back.
func (e runEnd) again() (again *journal.Again, note string) {
	if e.claim.Manual || e.claim.Plan == nil {
		return nil, ""
	}
	said := *e.claim.Plan
	var next int64
	if said.Schedule != "" {
		times, zone, err := e.timing.read(said)
		if err != nil {
			return nil, "it recurs no more: " + err.Error()
		}
		next = times.Following(e.claim.PlannedAt, e.now, zone)
	}
	switch {
	case e.failed && !e.final && e.attempt < e.attempts && (next == 0 || e.retry < next):
		return &journal.Again{RunAt: e.retry, PlannedAt: e.claim.PlannedAt, Attempts: int64(e.attempt), Why: journal.AgainRetry}, ""
	case next != 0:
		return &journal.Again{RunAt: next, PlannedAt: next, Why: journal.AgainSchedule}, ""
	case said.Schedule != "":
		return nil, fmt.Sprintf("it recurs no more: schedule %q has no further time before the year 2100", said.Schedule)
	}
	return nil, ""
}

// followEnd decides what follows the end of a job, and makes it part of that.
func (b *Board) followEnd(j *Job, done *journal.Done, unknown bool, now time.Time) {
	if done.Timeout > 0 {
		done.Result = "fail"
	}
	if !b.config.Again || j.cancelled != nil && j.cancelled.Schedule {
		return
	}
	e := runEnd{
		claim: j.claim, attempt: j.attempt, failed: done.Result != "ok",
		final:    unknown || done.Final || hopeless(*done) || j.cancelled != nil || j.ends && killed(*done),
		attempts: b.said(j.claim), retry: b.nextTry(j, *done, now), timing: b.timing, now: b.planTime(now),
	}
	var note string
	if done.Again, note = e.again(); note != "" {
		done.Note = joined(done.Note, note)
	}
}

// exDataErr is the exit code of a job that says that its data are wrong: another attempt would fail
// as well.
const exDataErr = 65

func hopeless(done journal.Done) bool { return done.Code != nil && *done.Code == exDataErr }

// killed tells whether a signal has ended a job: that of its process, or, as shells tell it, of one
// that the process had started.
func killed(done journal.Done) bool {
	const shell, most = 128, 64
	return done.Signal != "" || done.Code != nil && *done.Code > shell && *done.Code <= shell+most
}

// joined is two reasons in one line.
func joined(one, other string) string {
	if one == "" || other == "" {
		return one + other
	}
	return one + "; " + other
}

// Replan says what follows the end of a run whose row has another schedule by now than its claim had,
// as found tells: the board plans it anew. An empty schedule means no further run.
func (b *Board) Replan(done journal.Done, claim journal.Accepted, found journal.Plan, now int64) journal.Replanned {
	r := journal.Replanned{Token: claim.Token, Schedule: found.Schedule, Zone: found.Zone}
	if found.Schedule == "" || claim.Manual || done.WasCancelled() && done.Again == nil {
		return r
	}
	said := journal.Plan{Schedule: found.Schedule, Zone: found.Zone}
	e := runEnd{timing: b.timing, now: now, claim: journal.Accepted{Plan: &said, PlannedAt: claim.PlannedAt}}
	if retry := done.Again; retry != nil && retry.Why == journal.AgainRetry {
		e.failed, e.attempt, e.attempts, e.retry = true, int(retry.Attempts), int(retry.Attempts)+1, retry.RunAt
	}
	r.Again, r.Note = e.again()
	return r
}
