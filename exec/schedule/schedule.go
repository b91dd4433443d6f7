package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// end is the beginning of the year 2100, in unix seconds: nothing is planned from there on. Times
// beyond it are taken for mistakes in milliseconds elsewhere, too.
const end = 4102444800

// Schedule is when a job recurs. It does not change, and any number of goroutines may use it.
type Schedule struct {
	text  string    // canonical
	every int64     // seconds; 0: the calendar says when
	times *calendar // nil: every

	spread int64  // seconds behind its times within which it runs; 0: at its times
	luck   uint64 // tells where within that
}

// Spread is the schedule of one row: it runs behind its times, by less than most and less than the
// time until the next one, so that rows which recur alike do not all start at once. The same id is
// always as late. An `every` schedule stays as it is: it counts from each row's own first run.
func (s *Schedule) Spread(id int64, most time.Duration) *Schedule {
	spread := *s
	if s.times == nil || most < time.Second {
		return &spread
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(id)))
	spread.spread, spread.luck = int64(most/time.Second), binary.BigEndian.Uint64(sum[:])
	return &spread
}

// String is the schedule's canonical form, which Parse reads as the same schedule.
func (s *Schedule) String() string { return s.text }

// Every is the interval of an `every` schedule in seconds. ok is false for all others.
func (s *Schedule) Every() (seconds int64, ok bool) { return s.every, s.times == nil }

// Next is the first planned time after a moment, both in unix seconds; 0 if there is none before the
// year 2100. Of `every`, it is one interval after the moment. No time is planned before 1970.
// Without a zone it is UTC.
func (s *Schedule) Next(after int64, zone *time.Location) int64 {
	if s.spread == 0 {
		return s.time(after, zone)
	}
	return s.late(after-s.spread, after, zone)
}

// late is the first planned time after a moment of those whose times are behind another.
func (s *Schedule) late(behind, after int64, zone *time.Location) int64 {
	for at := s.time(behind, zone); at != 0; {
		next, room := s.time(at, zone), s.spread
		if next != 0 {
			room = min(room, next-at)
		}
		if planned := at + int64(s.luck%uint64(room)); planned > after && planned < end {
			return planned
		}
		at = next
	}
	return 0
}

// Behind is how many seconds a planned time of the schedule is behind the time that it names.
func (s *Schedule) Behind(planned int64, zone *time.Location) (behind int64) {
	if s.spread == 0 {
		return 0
	}
	for at := s.time(planned-s.spread, zone); at != 0 && at <= planned; at = s.time(at, zone) {
		behind = planned - at
	}
	return behind
}

// time is the first time after a moment that the schedule names, or one interval after it.
func (s *Schedule) time(after int64, zone *time.Location) int64 {
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
	if s.spread > 0 { // the time behind the planned one, whatever the spread was when that was planned
		return s.late(max(planned, now-s.spread), max(planned, now), zone)
	}
	if s.times != nil || planned >= now {
		return s.Next(max(planned, now), zone)
	}
	return s.Next(now-(now-planned)%s.every, zone)
}
