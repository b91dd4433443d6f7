package board

import (
	"fmt"
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
	// century is the beginning of the year 2100, in seconds since 1970. Nobody plans so far ahead: a
	// time beyond it is a mistake.
	century = 4102444800
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
			fmt.Sprintf("it was missed: planned for %s, met %s later", utc(p.plannedAt), late))
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
	following := times.Next(planned, zone)
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
	for _, at := range []struct {
		column string
		value  int64
	}{{"run_at", said.RunAt}, {"planned_at", said.PlannedAt}} {
		switch {
		case at.value >= 1000*yearOf2000:
			return fmt.Sprintf("%s = %d is a time in milliseconds: it is in seconds since 1970, so write %d", at.column, at.value, at.value/1000)
		case at.value >= century:
			return fmt.Sprintf("%s = %d is later than the year 2099: it is in seconds since 1970", at.column, at.value)
		case at.value < 0:
			return fmt.Sprintf("%s = %d is before 1970: it is in seconds since then", at.column, at.value)
		}
	}
	switch {
	case said.Attempts < 0:
		return fmt.Sprintf("attempts = %d: it counts starts, from 0", said.Attempts)
	case said.MaxAttempts < 0:
		return fmt.Sprintf("max_attempts = %d: it is how many starts there may be, from 1; 0 or NULL: as the configuration says", said.MaxAttempts)
	case said.Timeout < 0:
		return fmt.Sprintf("timeout = %d: it is in seconds, from 1; 0 or NULL: as the configuration says", said.Timeout)
	case said.Timeout > longestTimeout:
		return fmt.Sprintf("timeout = %d is longer than a hundred years: it is in seconds", said.Timeout)
	case said.Schedule == "":
		return ""
	}
	if _, _, err := (Timing{}).read(said); err != nil {
		return err.Error()
	}
	return ""
}

// yearOf2000 is the beginning of that year, in seconds since 1970.
const yearOf2000 = 946684800

func utc(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }
