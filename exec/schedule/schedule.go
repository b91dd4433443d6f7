package schedule

import "time"

// end is the beginning of the year 2100, in unix seconds: nothing is planned from there on. Times
// beyond it are taken for mistakes in milliseconds elsewhere, too.
const end = 4102444800

// Schedule is when a job recurs. It does not change, and any number of goroutines may use it.
type Schedule struct {
	text  string    // canonical
	every int64     // seconds; 0: the calendar says when
	times *calendar // nil: every
}

// String is the schedule's canonical form, which Parse reads as the same schedule.
func (s *Schedule) String() string { return s.text }

// Every is the interval of an `every` schedule in seconds. ok is false for all others.
func (s *Schedule) Every() (seconds int64, ok bool) { return s.every, s.times == nil }

// Next is the first planned time after a moment, both in unix seconds; 0 if there is none before the
// year 2100. Of `every`, it is one interval after the moment. No time is planned before 1970.
// Without a zone it is UTC.
func (s *Schedule) Next(after int64, zone *time.Location) int64 {
	after = max(after, 0)
	if after >= end {
		return 0
	}
	if zone == nil {
		zone = time.UTC
	}
	var next int64
	switch {
	case s.times == nil:
		next = after + s.every
	case s.times.follows:
		next = s.times.nextShown(after, zone)
	default:
		next = s.times.nextFixed(after, zone)
	}
	if next >= end {
		return 0
	}
	return next
}

// Following is the planned time that follows a run which was planned for one moment and has ended at
// another: of `every`, the smallest planned + k·interval after now, with k at least 1; of all others
// the first planned time after both. What has passed meanwhile is dropped.
func (s *Schedule) Following(planned, now int64, zone *time.Location) int64 {
	planned, now = max(planned, 0), max(now, 0)
	if s.times != nil || planned >= now {
		return s.Next(max(planned, now), zone)
	}
	return s.Next(now-(now-planned)%s.every, zone)
}
