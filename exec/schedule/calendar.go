package schedule

import (
	"math/bits"
	"time"
)

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
