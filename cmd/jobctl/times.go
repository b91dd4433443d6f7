package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
)

// window is the flags that narrow a command to a time.
type window struct{ since, until timeFlag }

func (p *program) windowFlags(c *ffcli.Command) *window {
	w := &window{timeFlag{p: p}, timeFlag{p: p}}
	c.FlagSet.Var(&w.since, "since", "only from this time on: 2026-11-20 14:00, 2h (ago), or unix time in seconds")
	c.FlagSet.Var(&w.until, "until", "only before this time")
	checkFirst(c, func([]string) error { return inOrder(w.since.at, w.until.at) })
	return w
}

// inOrder refuses a window in which nothing can lie.
func inOrder(since, until time.Time) error {
	if since.IsZero() || until.IsZero() || since.Before(until) {
		return nil
	}
	return wrongUsage("--since %s is not before --until %s", since.Format(time.RFC3339Nano), until.Format(time.RFC3339Nano))
}

// timeFlag is a flag.Value for a moment.
type timeFlag struct {
	p  *program
	at time.Time
}

// String implements flag.Value.
func (f *timeFlag) String() string { return "" }

// Set implements flag.Value.
func (f *timeFlag) Set(text string) (err error) {
	f.at, err = parseTime(text, f.p.now(), f.p.location)
	return err
}

// The unix times that are taken: of ten digits, from 2001 to 2286. Any other number may be a date,
// milliseconds, or a number of something.
const (
	firstUnix = 1_000_000_000
	lastUnix  = 10_000_000_000 - 1
)

// number knows numbers that have no unit.
var number = regexp.MustCompile(`^[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?$`)

// length knows how long ago something was: numbers, each with its unit.
var length = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`)

// parseTime reads a moment: a date with or without a time of day, in location or as RFC 3339 has
// it; unix time in seconds; or how long before now it was. What may mean two things is refused.
func parseTime(text string, now time.Time, location *time.Location) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04", time.DateTime, time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if wall, err := time.Parse(layout, text); err == nil {
			return onlyMoment(text, wall, location)
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	if text != "" && number.MatchString(text) {
		return unixTime(text)
	}
	if length.MatchString(text) {
		if ago, err := conf.ParseDuration(text); err == nil {
			return now.Add(-ago), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not allowed; allowed is a time such as 2026-11-20 14:00 or 2026-11-20T14:00:00Z, how long ago (90s, 2h, 30d), or unix time in seconds", text)
}

// unixTime reads seconds since 1970, to the nanosecond.
func unixTime(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < firstUnix || seconds > lastUnix || whole[0] == '+' || strings.ContainsAny(fraction, "eE") || len(fraction) > 9 {
		return time.Time{}, fmt.Errorf("%q is not allowed: a number is unix time in seconds, of ten digits and perhaps a fraction, as in 1795299125.2; %s", text, meant(whole))
	}
	nanoseconds, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanoseconds), nil
}

// meant guesses what else a number was.
func meant(whole string) string {
	switch len(strings.TrimLeft(whole, "+-")) {
	case 8:
		return "a date is written 2026-11-21"
	case 12, 14:
		return "a date and time are written 2026-11-21T14:00:00"
	case 13:
		return "this may be milliseconds"
	case 16:
		return "this may be microseconds"
	case 19:
		return "this may be nanoseconds"
	}
	return "how long ago has a unit, as in 90s, 2h or 30d"
}

// onlyMoment is the one moment at which the clocks of a place showed a time. Where they are put
// back there are two, where they are put forward none.
func onlyMoment(text string, wall time.Time, location *time.Location) (time.Time, error) {
	var found []time.Time
	for _, offset := range offsetsAround(wall, location) {
		at := wall.Add(-offset).In(location)
		if _, shown := at.Zone(); time.Duration(shown)*time.Second == offset {
			found = append(found, at)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return time.Time{}, fmt.Errorf("%q is not allowed: the clocks here (%s) were put forward past that time", text, location)
	}
	return time.Time{}, fmt.Errorf("%q is not allowed: the clocks here (%s) were put back, and showed that time twice; it is %s or %s",
		text, location, found[0].Format(time.RFC3339), found[1].Format(time.RFC3339))
}

// offsetsAround gives the different offsets of a place from UTC within a day of a time.
func offsetsAround(wall time.Time, location *time.Location) (offsets []time.Duration) {
	for _, days := range []int{-1, 1} {
		_, seconds := wall.AddDate(0, 0, days).In(location).Zone()
		offset := time.Duration(seconds) * time.Second
		if len(offsets) == 0 || offsets[0] != offset {
			offsets = append(offsets, offset)
		}
	}
	return offsets
}
