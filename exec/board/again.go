package board

import (
	"fmt"
	"time"

	"jobd/journal"
)

// runEnd is the end of a run, with all that decides what follows it.
type runEnd struct {
	claim    journal.Accepted
	attempt  int            // the number of the start that has ended
	failed   bool           // it did not end well
	final    bool           // it is not tried again, whatever attempts are left
	attempts int            // starts of the run in all
	wait     int64          // seconds until the next attempt
	zone     *time.Location // of a schedule whose row names none; nil: UTC
	now      int64          // seconds since 1970, by the clock of the table's server
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
		times, zone, err := (Timing{Zone: e.zone}).read(said)
		if err != nil {
			return nil, "it recurs no more: " + err.Error()
		}
		next = times.Following(e.claim.PlannedAt, e.now, zone)
	}
	retry := e.now + e.wait
	switch {
	case e.failed && !e.final && e.attempt < e.attempts && (next == 0 || retry < next):
		return &journal.Again{RunAt: retry, PlannedAt: e.claim.PlannedAt, Attempts: int64(e.attempt), Why: journal.AgainRetry}, ""
	case next != 0:
		return &journal.Again{RunAt: next, PlannedAt: next, Why: journal.AgainSchedule}, ""
	case said.Schedule != "":
		return nil, fmt.Sprintf("it recurs no more: schedule %q has no further time before the year 2100", said.Schedule)
	}
	return nil, ""
}

// follow decides what follows the end of a job, and makes it part of that.
func (b *Board) followEnd(j *Job, done *journal.Done, unknown bool, now time.Time) {
	if done.Timeout > 0 {
		done.Result = "fail"
	}
	if !b.config.Again || j.cancelled != nil {
		return
	}
	e := runEnd{
		claim: j.claim, attempt: j.attempt, failed: done.Result != "ok", final: unknown || done.Final || hopeless(*done) || j.ends && killed(*done),
		attempts: b.said(j.claim), wait: b.nextWait(j, *done), zone: b.timing.Zone, now: b.planTime(now),
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

// Replan says what follows the end of a run whose row has another schedule by now than its claim
// had, as found tells: it is planned anew. Whoever emptied the schedule wants no further run.
func Replan(done journal.Done, claim journal.Accepted, found journal.Plan, zone *time.Location, now int64) journal.Replanned {
	r := journal.Replanned{Token: claim.Token, Schedule: found.Schedule, Zone: found.Zone}
	if found.Schedule == "" || claim.Manual || done.WasCancelled() {
		return r
	}
	said := journal.Plan{Schedule: found.Schedule, Zone: found.Zone}
	e := runEnd{zone: zone, now: now, claim: journal.Accepted{Plan: &said, PlannedAt: claim.PlannedAt}}
	if retry := done.Again; retry != nil && retry.Why == journal.AgainRetry {
		e.failed, e.attempt, e.attempts, e.wait = true, int(retry.Attempts), int(retry.Attempts)+1, retry.RunAt-now
	}
	r.Again, r.Note = e.again()
	return r
}
