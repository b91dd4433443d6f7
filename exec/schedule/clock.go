package schedule

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // for hosts without a tz database
)

// The clock on the wall: zones, and which times of a calendar it shows.

// apart is more than the clocks of any two zones ever are: so far from a change of clocks, nothing
// that the clock shows can be shown again.
const apart = 2 * day

// period is a time without a change of clocks: until then, and not then, the clock on the wall is
// ahead of UTC by offset seconds.
type period struct{ until, offset int64 }

// periodAt is the period of zone that a moment is in, from this moment on. It may end before the next
// change of clocks, but never before the moment: for the last day of leap years package time names an
// end that has passed. Where a period began is not told there reliably, so nothing here asks for it.
func periodAt(moment int64, zone *time.Location) period {
	local := time.Unix(moment, 0).In(zone)
	_, offset := local.Zone()
	_, bound := local.ZoneBounds()
	until := int64(math.MaxInt64)
	if !bound.IsZero() {
		until = bound.Unix()
	}
	if until <= moment {
		until = moment - moment%day + day
	}
	return period{until, int64(offset)}
}

// shown is the latest time that the clock on the wall has shown up to a moment, that moment included.
// After the clock was put back, it is later than what the clock shows.
func shown(moment int64, zone *time.Location) int64 {
	latest := int64(math.MinInt64)
	p := periodAt(moment-apart, zone)
	for ; p.until <= moment; p = periodAt(p.until, zone) {
		latest = max(latest, p.until-1+p.offset)
	}
	return max(latest, moment+p.offset)
}

// reached is the first moment at which the clock shows a time, or a later one because it was put
// forward over it.
func reached(wall int64, zone *time.Location) int64 {
	moment := wall - apart
	for {
		p := periodAt(moment, zone)
		moment = max(moment, wall-p.offset)
		if moment < p.until {
			return moment
		}
		moment = p.until
	}
}

// nextFixed is the first moment after another one at which the clock reaches a time of the calendar
// for the first time; end if there is none before.
func (c *calendar) nextFixed(after int64, zone *time.Location) int64 {
	wall, ok := c.next(shown(after, zone))
	if !ok {
		return end
	}
	return reached(wall, zone)
}

// nextShown is the first moment after another one at which the clock shows a time of the calendar;
// end if there is none before.
func (c *calendar) nextShown(after int64, zone *time.Location) int64 {
	for moment := after + 1; moment < end; {
		p := periodAt(moment, zone)
		wall, ok := c.next(moment + p.offset - 1)
		if !ok {
			return end
		}
		if wall-p.offset < p.until {
			return wall - p.offset
		}
		// None in the rest of this period. Once no earlier time can be shown again, none is due
		// until the clock is near the one that was found.
		if p.until > moment+apart {
			moment = wall - apart
		}
		moment = max(moment, p.until)
	}
	return end
}

const (
	minute = 60
	day    = 24 * 60 * minute
)

// calendar is a set of times on the clock on the wall, to the minute. Bit n of a set stands for the
// value n.
type calendar struct {
	minutes  uint64 // 0 to 59
	hours    uint64 // 0 to 23
	days     uint64 // of the month, 1 to 31
	months   uint64 // 1 to 12
	weekdays uint64 // 0, Sunday, to 6
	either   bool   // a day is meant where days or weekdays have it; otherwise where both have it
	last     bool   // days that a month has not mean its last
	follows  bool   // the wall clock, through every change of clocks
}

// next is the first time of the calendar after another one. Times on the wall are counted as if the
// wall were in UTC: in seconds since 1970 began there. ok is false if there is none before 2101: it
// takes a step for each month up to there, at most.
func (c *calendar) next(wall int64) (following int64, ok bool) {
	after := time.Unix(wall, 0).UTC()
	year, month, date := after.Date()
	if c.months>>month&1 != 0 && c.dates(year, month)>>date&1 != 0 {
		if hour, minute, ok := c.later(after.Hour(), after.Minute()); ok {
			return time.Date(year, month, date, hour, minute, 0, 0, time.UTC).Unix(), true
		}
	}
	for date++; year <= 2100; date = 0 {
		if c.months>>month&1 != 0 {
			if dates := c.dates(year, month) >> date << date; dates != 0 {
				hour, minute := bits.TrailingZeros64(c.hours), bits.TrailingZeros64(c.minutes)
				return time.Date(year, month, bits.TrailingZeros64(dates), hour, minute, 0, 0, time.UTC).Unix(), true
			}
		}
		if month++; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// later is the first time of a day after another one.
func (c *calendar) later(hour, minute int) (laterHour, laterMinute int, ok bool) {
	if c.hours>>hour&1 != 0 {
		if rest := c.minutes >> (minute + 1) << (minute + 1); rest != 0 {
			return hour, bits.TrailingZeros64(rest), true
		}
	}
	rest := c.hours >> (hour + 1) << (hour + 1)
	return bits.TrailingZeros64(rest), bits.TrailingZeros64(c.minutes), rest != 0
}

// dates are the days of a month that are meant, as a set like days.
func (c *calendar) dates(year int, month time.Month) uint64 {
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	length := first.AddDate(0, 1, -1).Day()
	dates := c.days
	if c.last && dates>>(length+1) != 0 {
		dates |= 1 << length
	}
	// Five weeks in a row, moved so that bit 1 is the weekday of the 1st.
	weeks := c.weekdays * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35)
	weeks = weeks >> first.Weekday() << 1
	if c.either {
		dates |= weeks
	} else {
		dates &= weeks
	}
	return dates & (1<<(length+1) - 2)
}

// zones are those that were loaded, by name. All plans of a process are made with the same rules: a
// new tz database of the host takes effect when the process starts.
var zones sync.Map

// longestZone is what the column takes; the longest name has 32 characters.
const longestZone = 64

// Zone is a zone by its name in the tz database of IANA, as Europe/Berlin or UTC. The host's
// database wins over the one that is built in, which is for hosts without: governments change the
// rules within weeks, and the host's is updated with it, for all of its programs alike. The
// environment's TZ has no influence; a folder or zip file that ZONEINFO names comes first, as in
// every Go program.
func Zone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if err := judgeZone(name); err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, unknownZone(name)
	}
	zones.Store(name, zone)
	return zone, nil
}

const writeZone = "write a name of the tz database, as Europe/Berlin, or UTC"

// judgeZone refuses what is no name of the tz database, though the host may have a file of that name.
func judgeZone(name string) error {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return errors.New("the time zone is empty: " + writeZone)
	case strings.EqualFold(name, "local") || name == "localtime":
		return fmt.Errorf("time zone %q: it differs from host to host: %s", name, writeZone)
	case len(name) > longestZone, path.Clean(name) != name, slices.Contains([]string{"right", "posix", "posixrules", "Factory"}, first):
		return unknownZone(name)
	}
	return nil
}

func unknownZone(name string) error {
	return fmt.Errorf("time zone %.*q is not known: %s", longestZone, name, writeZone)
}
