package operator

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/journal"
)

// Clock is by what times are told.
type Clock struct {
	Now      time.Time
	Location *time.Location
	Brief    bool // for people: to the second, with a date only where that is not today's
}

// Stamp is a moment, to the microsecond as the journal has it; "" of none.
func (c Clock) Stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(c.Location).Format("2006-01-02 15:04:05.000000")
}

// Moment is a moment as the clock wants it: brief, or else the stamp.
func (c Clock) Moment(at time.Time) string {
	if !c.Brief || at.IsZero() {
		return c.Stamp(at)
	}
	at, now := at.In(c.Location), c.Now.In(c.Location)
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// Seconds is a moment of the table, which has whole seconds. When a row is due may be never, while its
// schedule is paused.
func (c Clock) Seconds(unix int64) string {
	switch {
	case unix == 0:
		return ""
	case unix == journal.PausedAt:
		return "paused"
	case c.Brief:
		return c.Moment(time.Unix(unix, 0))
	}
	return time.Unix(unix, 0).In(c.Location).Format(time.DateTime)
}

// The unix times that are taken: of ten digits, from 2001 to 2286. Any other number may be a date,
// milliseconds, or a number of something.
const (
	FirstUnix = 1_000_000_000
	lastUnix  = 10_000_000_000 - 1
)

// number knows numbers that have no unit.
var number = regexp.MustCompile(`^[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?$`)

// lengths knows how long ago something was: numbers, each with its unit.
var lengths = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`)

// ParseTime reads a moment: a date with or without a time of day, in location or as RFC 3339 has
// it; a time of day, which is the last one; unix time in seconds; or how long before now it was. What
// may mean two things is refused.
func ParseTime(text string, now time.Time, location *time.Location) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04", time.DateTime, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, location); err == nil {
			return at, nil
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if clock, err := time.Parse(layout, text); err == nil {
			return lastTime(clock, now.In(location)), nil
		}
	}
	if text != "" && number.MatchString(text) {
		return unixTime(text)
	}
	if lengths.MatchString(text) {
		if ago, err := conf.ParseDuration(text); err == nil {
			return now.Add(-ago), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not allowed; allowed: a time such as 2026-11-20 14:00, 14:00 or 2026-11-20T14:00:00Z, how long ago (90s, 2h, 30d), or unix time in seconds", text)
}

// lastTime is when clocks showed this time last: today, or yesterday where that is still to come.
func lastTime(clock, now time.Time) time.Time {
	at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
	if at.After(now) {
		at = time.Date(now.Year(), now.Month(), now.Day()-1, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
	}
	return at
}

// unixTime reads seconds since 1970, to the nanosecond.
func unixTime(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < FirstUnix || seconds > lastUnix || whole[0] == '+' || strings.ContainsAny(fraction, "eE") || len(fraction) > 9 {
		return time.Time{}, fmt.Errorf("%q is not allowed: a number is unix time in seconds, of ten digits and perhaps a fraction, as in 1795299125.2; how long ago has a unit, as in 90s, 2h or 30d", text)
	}
	nanoseconds, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanoseconds), nil
}
