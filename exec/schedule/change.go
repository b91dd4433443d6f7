package schedule

import (
	"fmt"
	"time"
)

// Change is a change of clocks.
type Change struct {
	At            int64 // the first moment after it, in unix seconds
	Before, After int   // how far the clock on the wall is ahead of UTC, in seconds
}

// NextChange is the first change of clocks in a zone after a moment, in unix seconds. ok is false if
// none is known before the year 2100. What changes names only is no change.
func NextChange(after int64, zone *time.Location) (change Change, ok bool) {
	if zone == nil {
		zone = time.UTC
	}
	if after >= end {
		return Change{}, false
	}
	for before := periodAt(max(after, 0), zone); before.until < end; {
		following := periodAt(before.until, zone)
		if following.offset != before.offset {
			return Change{At: before.until, Before: int(before.offset), After: int(following.offset)}, true
		}
		before = following
	}
	return Change{}, false
}

// AtChange says in plain English what happens to the schedule at a change of clocks.
func (s *Schedule) AtChange(change Change) string {
	if s.times == nil {
		return "it counts elapsed time: the change makes no difference"
	}
	before, after := change.At+int64(change.Before), change.At+int64(change.After)
	forward := after > before
	met, count := s.times.within(min(before, after), max(before, after))
	many := count > 1
	switch follows := s.times.follows; {
	case count == 0 && forward:
		return "none of its times is left out"
	case count == 0:
		return "none of its times is repeated"
	case follows && forward:
		return met + verb(many, " is left out", " are left out")
	case follows:
		return met + verb(many, " runs in both passes", " run in both passes")
	case forward:
		return met + verb(many, " is left out, and runs at ", " are left out, and run once, at ") +
			onWall(after, after-before) + ", when the clocks have been put forward"
	}
	return met + verb(many, " runs in the first pass only", " run in the first pass only")
}

// verb is one of two forms.
func verb(many bool, singular, plural string) string {
	if many {
		return plural
	}
	return singular
}

// mostNamed is how many times that a change of clocks meets are named one by one.
const mostNamed = 3

// within names the calendar's times from one time on the wall on and before another, and counts them.
func (c *calendar) within(from, until int64) (names string, count int) {
	var named []string
	for wall, ok := c.next(from - 1); ok && wall < until; wall, ok = c.next(wall) {
		if count++; count <= mostNamed {
			named = append(named, onWall(wall, until-from))
		}
	}
	if more := count - mostNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return and(named), count
}

// onWall writes a time on the wall, with its date where the clocks changed by half a day or more.
func onWall(wall, change int64) string {
	if change >= day/2 {
		return time.Unix(wall, 0).UTC().Format("2006-01-02 15:04")
	}
	return time.Unix(wall, 0).UTC().Format("15:04")
}
