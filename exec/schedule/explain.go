package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Explain says in plain English when the schedule is due, and, if so wanted, what it does at changes of clocks.
func (s *Schedule) Explain(changes bool) string {
	switch {
	case s.times != nil && !changes:
		return s.times.explain()
	case s.times == nil:
		return s.text + " of elapsed time, counted from the previous planned time; clock changes don't matter"
	case s.times.follows:
		return s.times.explain() + ", by the clock on the wall: in both passes of a repeated hour, " +
			"in none of a skipped one"
	}
	return s.times.explain() + "; a time that the clocks skip runs right after the change; " +
		"a time that comes twice runs the first time"
}

func (c *calendar) explain() string {
	words := []string{c.explainTime()}
	if dates := c.explainDates(); dates != "each day" || c.hours != 1<<24-1 {
		words = append(words, dates)
	}
	return strings.Join(words, " ")
}

// mostTimes is how many times of a day are named one by one.
const mostTimes = 6

func (c *calendar) explainTime() string {
	everyMinute, everyHour := c.minutes == 1<<60-1, c.hours == 1<<24-1
	switch {
	case everyMinute && everyHour:
		return "every minute"
	case everyHour:
		return "each hour at minute " + list(c.minutes, strconv.Itoa)
	case everyMinute:
		return "every minute of hour " + list(c.hours, strconv.Itoa)
	case bits.OnesCount64(c.minutes)*bits.OnesCount64(c.hours) > mostTimes:
		return "at minute " + list(c.minutes, strconv.Itoa) + " of hour " + list(c.hours, strconv.Itoa)
	}
	var times []string
	for hour := range 24 {
		for minute := range 60 {
			if c.hours>>hour&1 != 0 && c.minutes>>minute&1 != 0 {
				times = append(times, fmt.Sprintf("%02d:%02d", hour, minute))
			}
		}
	}
	return "at " + and(times)
}

func (c *calendar) explainDates() string {
	everyDay, everyWeekday := c.days == 1<<32-2, c.weekdays == 1<<7-1
	of, in := " of each month", ""
	if c.months != 1<<13-2 {
		in = " in " + list(c.months, func(n int) string { return time.Month(n).String() })
		of = in
	}
	date := "on day " + list(c.days, strconv.Itoa)
	switch day := bits.TrailingZeros64(c.days); {
	case c.last && day == 31:
		date = "on the last day"
	case c.last && day > 28 && c.months&(1<<time.February) != 0:
		date += ", or the last in shorter ones,"
	}
	week := c.weekdays&^1 | c.weekdays&1<<7 // Monday first
	weekday := list(week, func(n int) string { return time.Weekday(n % 7).String() })
	switch {
	case c.either && (everyDay || everyWeekday), everyDay && everyWeekday:
		return "each day" + in
	case c.either:
		return date + of + ", and also on " + weekday + in
	case everyWeekday:
		return date + of
	case !everyDay:
		return date + of + " if it is " + weekday
	}
	return "on " + weekday + in
}

// list writes a set in words.
func list(set uint64, name func(int) string) string { return and(spans(set, " to ", name)) }

// spans writes a set, more than two values in a row as a range.
func spans(set uint64, to string, name func(int) string) (parts []string) {
	for first := bits.TrailingZeros64(set); first < 64; first = bits.TrailingZeros64(set >> first << first) {
		last := first
		for set>>(last+1)&1 != 0 {
			last++
		}
		switch {
		case last > first+1:
			parts = append(parts, name(first)+to+name(last))
		case last > first:
			parts = append(parts, name(first), name(last))
		default:
			parts = append(parts, name(first))
		}
		first = last + 1
	}
	return parts
}

// and joins words as in a sentence.
func and(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
