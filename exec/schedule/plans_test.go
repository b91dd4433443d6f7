package schedule_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// plan is a schedule as the tests know it: its text, and on its own account the times that the text
// stands for. Nothing of it comes from the package under test.
type plan struct {
	text                                  string
	minutes, hours, days, months, weekday []int
	daysGiven, weekdayGiven               bool // cron: either is enough where both are
	last                                  bool // days beyond the month's end mean its last
	follows                               bool // the wall clock
}

// matches reports whether the wall shows one of the plan's times. Times on the wall are counted as
// in package schedule: as if the wall were in UTC.
func (p *plan) matches(wall int64) bool {
	at := time.Unix(wall, 0).UTC()
	if !slices.Contains(p.minutes, at.Minute()) || !slices.Contains(p.hours, at.Hour()) {
		return false
	}
	if !slices.Contains(p.months, int(at.Month())) {
		return false
	}
	day := slices.Contains(p.days, at.Day())
	if p.last && at.AddDate(0, 0, 1).Month() != at.Month() {
		day = slices.ContainsFunc(p.days, func(day int) bool { return day >= at.Day() })
	}
	weekday := slices.Contains(p.weekday, int(at.Weekday()))
	if p.daysGiven && p.weekdayGiven {
		return day || weekday
	}
	return day && weekday
}

// walk is the oracle. It goes minute by minute through a zone, from two days before a moment on, and
// looks at the wall. The runs are those after the moment, up to another.
func (p *plan) walk(zone *time.Location, after, until int64) []int64 {
	var runs []int64
	var seen int64
	for moment := (after - 48*3600) / 60 * 60; moment <= until; moment += 60 {
		_, offset := time.Unix(moment, 0).In(zone).Zone()
		wall := moment + int64(offset)
		due := false
		switch {
		case p.follows:
			due = p.matches(wall)
		case seen != 0:
			// All that the wall has come past, whether it showed them or not.
			for time := seen + 60; time <= wall; time += 60 {
				due = p.matches(time) || due
			}
		}
		if due && moment > after {
			runs = append(runs, moment)
		}
		seen = max(seen, wall)
	}
	return runs
}

// count is the numbers from one to another.
func count(from, to int) []int {
	var all []int
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

var (
	everyHour, everyDay      = count(0, 23), count(1, 31)
	everyMonth, everyWeekday = count(1, 12), count(0, 6)

	weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}
)

// names writes weekdays as a list.
func names(days []int) string {
	var words []string
	for _, day := range days {
		words = append(words, weekdays[day])
	}
	return strings.Join(words, ",")
}

// drawPlan makes any plan but an interval.
func drawPlan(t *rapid.T) *plan {
	hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
	if rapid.Bool().Draw(t, "early") { // when clocks change
		hour = rapid.IntRange(0, 3).Draw(t, "early hour")
	}
	at := fmt.Sprintf("%02d:%02d", hour, minute)
	p := &plan{
		minutes: []int{minute}, hours: []int{hour}, days: everyDay, months: everyMonth, weekday: everyWeekday,
	}
	switch rapid.SampledFrom([]string{"cron", "cron", "cron", "hourly", "daily", "weekly", "monthly", "yearly"}).Draw(t, "form") {
	case "hourly":
		p.text, p.hours, p.follows = fmt.Sprintf("hourly :%02d", minute), everyHour, true
	case "daily":
		p.text = "daily " + at
	case "weekly":
		p.weekday = drawSet(t, "weekdays", 0, 6)
		p.text = "weekly " + names(p.weekday) + " " + at
	case "monthly":
		p.monthly(rapid.IntRange(1, 32).Draw(t, "day"), at)
	case "yearly":
		p.yearly(rapid.IntRange(1, 366).Draw(t, "day of year"), at)
	default:
		p.fields(t)
	}
	return p
}

func (p *plan) monthly(day int, at string) {
	p.last = true
	p.text, p.days = fmt.Sprintf("monthly %d %s", day, at), []int{day}
	if day == 32 {
		p.text, p.days = "monthly last "+at, []int{31}
	}
}

func (p *plan) yearly(yearday int, at string) {
	date := time.Date(2024, 1, yearday, 0, 0, 0, 0, time.UTC)
	p.text = "yearly " + date.Format("01-02 ") + at
	p.months, p.days, p.last = []int{int(date.Month())}, []int{date.Day()}, true
}

// fields makes a plan in cron's five.
func (p *plan) fields(t *rapid.T) {
	var minute, hour, day, month, weekday string
	minute, p.minutes = drawField(t, "minutes", 0, 59)
	hour, p.hours = drawField(t, "hours", 0, 23)
	day, p.days = drawField(t, "days", 1, 31)
	month, p.months = drawField(t, "months", 1, 12)
	weekday, p.weekday = drawField(t, "weekday", 0, 6)
	p.text = strings.Join([]string{minute, hour, day, month, weekday}, " ")
	p.follows = hour == "*"
	p.daysGiven, p.weekdayGiven = day[0] != '*', weekday[0] != '*'
}

// drawField makes one of cron's fields, and what it stands for.
func drawField(t *rapid.T, label string, low, high int) (string, []int) {
	var parts []string
	set := map[int]bool{}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, label+": parts") {
		first, last, step := low, high, 1
		text := "*"
		switch rapid.SampledFrom([]string{"*", "n", "n", "range", "*/", "range/"}).Draw(t, label) {
		case "n":
			first = rapid.IntRange(low, high).Draw(t, label)
			last, text = first, strconv.Itoa(first)
		case "range":
			first = rapid.IntRange(low, high).Draw(t, label)
			last = rapid.IntRange(first, high).Draw(t, label)
			text = fmt.Sprintf("%d-%d", first, last)
		case "*/":
			step = rapid.IntRange(1, high-low).Draw(t, label)
			text = fmt.Sprintf("*/%d", step)
		case "range/":
			first = rapid.IntRange(low, high-1).Draw(t, label)
			last = rapid.IntRange(first+1, high).Draw(t, label)
			step = rapid.IntRange(1, last-first).Draw(t, label)
			text = fmt.Sprintf("%d-%d/%d", first, last, step)
		}
		parts = append(parts, text)
		for n := first; n <= last; n += step {
			set[n] = true
		}
	}
	var values []int
	for n := range high + 1 {
		if set[n] {
			values = append(values, n)
		}
	}
	return strings.Join(parts, ","), values
}

// drawSet is some of the numbers from one to another, at least one.
func drawSet(t *rapid.T, label string, low, high int) []int {
	set := rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, -1, rapid.ID[int]).Draw(t, label)
	slices.Sort(set)
	return set
}

// forward: the clocks are put forward, and leave times out.
var forward = []planCase{
	{"a fixed time that is left out", "Europe/Berlin", "daily 02:30", "2026-03-27 12:00 +0100", []string{
		"2026-03-28 02:30 +0100", "2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200",
	}},
	{"following the wall", "Europe/Berlin", "hourly :15", "2026-03-29 00:30 +0100", []string{
		"2026-03-29 01:15 +0100", "2026-03-29 03:15 +0200", "2026-03-29 04:15 +0200",
	}},
	{"every minute", "Europe/Berlin", "* * * * *", "2026-03-29 01:58 +0100", []string{
		"2026-03-29 01:59 +0100", "2026-03-29 03:00 +0200", "2026-03-29 03:01 +0200",
	}},
	{"many fixed times are one", "Europe/Berlin", "*/5 2 * * *", "2026-03-28 02:53 +0100", []string{
		"2026-03-28 02:55 +0100", "2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200",
	}},
	{"one that is left out and one at the end of the gap", "Europe/Berlin", "0 2,3 * * *", "2026-03-28 03:00 +0100", []string{
		"2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200", "2026-03-30 03:00 +0200",
	}},
	{"hours in steps are fixed times", "Europe/Berlin", "0 */2 * * *", "2026-03-28 23:00 +0100", []string{
		"2026-03-29 00:00 +0100", "2026-03-29 03:00 +0200", "2026-03-29 04:00 +0200",
	}},
	{"half an hour", "Australia/Lord_Howe", "daily 02:15", "2026-10-03 12:00 +1030", []string{
		"2026-10-04 02:30 +1100", "2026-10-05 02:15 +1100",
	}},
	{"half an hour, following the wall", "Australia/Lord_Howe", "*/15 * * * *", "2026-10-04 01:30 +1030", []string{
		"2026-10-04 01:45 +1030", "2026-10-04 02:30 +1100", "2026-10-04 02:45 +1100",
	}},
	{"an interval is elapsed time", "Europe/Berlin", "every 1d", "2026-03-28 12:00 +0100", []string{
		"2026-03-29 13:00 +0200", "2026-03-30 13:00 +0200",
	}},
}

// back: the clocks are put back, and show times twice.
var back = []planCase{
	{"a fixed time that is repeated", "Europe/Berlin", "daily 02:30", "2026-10-24 12:00 +0200", []string{
		"2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100",
	}},
	{"a fixed time, from the second pass on", "Europe/Berlin", "daily 02:30", "2026-10-25 02:15 +0100", []string{
		"2026-10-26 02:30 +0100",
	}},
	{"the end of the repeated hour, from the second pass on", "Europe/Berlin", "daily 03:00", "2026-10-25 02:15 +0100", []string{
		"2026-10-25 03:00 +0100", "2026-10-26 03:00 +0100",
	}},
	{"a fixed time, between the passes", "Europe/Berlin", "daily 02:30", "2026-10-25 02:45 +0200", []string{
		"2026-10-26 02:30 +0100",
	}},
	{"following the wall", "Europe/Berlin", "hourly :15", "2026-10-25 01:30 +0200", []string{
		"2026-10-25 02:15 +0200", "2026-10-25 02:15 +0100", "2026-10-25 03:15 +0100",
	}},
	{"every minute", "Europe/Berlin", "* * * * *", "2026-10-25 02:58 +0200", []string{
		"2026-10-25 02:59 +0200", "2026-10-25 02:00 +0100", "2026-10-25 02:01 +0100",
	}},
	{"hours in steps are fixed times", "Europe/Berlin", "*/30 */1 * * *", "2026-10-25 01:45 +0200", []string{
		"2026-10-25 02:00 +0200", "2026-10-25 02:30 +0200", "2026-10-25 03:00 +0100",
	}},
	{"the time at which they are put back", "America/New_York", "daily 02:00", "2026-10-31 12:00 -0400", []string{
		"2026-11-01 02:00 -0500", "2026-11-02 02:00 -0500",
	}},
	{"half an hour", "Australia/Lord_Howe", "daily 01:45", "2026-04-04 12:00 +1100", []string{
		"2026-04-05 01:45 +1100", "2026-04-06 01:45 +1030",
	}},
	{"half an hour, following the wall", "Australia/Lord_Howe", "*/15 * * * *", "2026-04-05 01:30 +1100", []string{
		"2026-04-05 01:45 +1100", "2026-04-05 01:30 +1030", "2026-04-05 01:45 +1030", "2026-04-05 02:00 +1030",
	}},
	{"an interval is elapsed time", "Europe/Berlin", "every 2h", "2026-10-25 01:30 +0200", []string{
		"2026-10-25 02:30 +0100", "2026-10-25 04:30 +0100",
	}},
}

// lost: a day that wasn't.
var lost = []planCase{
	{"each day", "Pacific/Apia", "daily 12:00", "2011-12-28 13:00 -1000", []string{
		"2011-12-29 12:00 -1000", "2011-12-31 00:00 +1400", "2011-12-31 12:00 +1400",
	}},
	{"each hour", "Pacific/Apia", "hourly :30", "2011-12-29 22:45 -1000", []string{
		"2011-12-29 23:30 -1000", "2011-12-31 00:30 +1400",
	}},
	{"that weekday", "Pacific/Apia", "weekly fri 10:00", "2011-12-23 12:00 -1000", []string{
		"2011-12-31 00:00 +1400", "2012-01-06 10:00 +1400",
	}},
	{"that date", "Pacific/Apia", "yearly 12-30 09:00", "2010-12-30 09:00 -1000", []string{
		"2011-12-31 00:00 +1400", "2012-12-30 09:00 +1400",
	}},
	{"that date by the wall", "Pacific/Apia", "0 * 30 12 *", "2010-12-30 23:30 -1000", []string{
		"2012-12-30 00:00 +1400",
	}},
	{"all of that day is one", "Pacific/Apia", "*/10 8-16 30 * *", "2011-11-30 17:00 -1000", []string{
		"2011-12-31 00:00 +1400", "2012-01-30 08:00 +1400",
	}},
}

// midnight: the clocks change there, and the date with them. The oracle has all other zones.
var midnight = []planCase{
	{"Cairo, forward", "Africa/Cairo", "daily 00:00", "2026-04-23 12:00 +0200", []string{
		"2026-04-24 01:00 +0300", "2026-04-25 00:00 +0300",
	}},
	{"Cairo, forward on that weekday", "Africa/Cairo", "weekly fri 00:30", "2026-04-18 12:00 +0200", []string{
		"2026-04-24 01:00 +0300", "2026-05-01 00:30 +0300",
	}},
	{"Cairo, back from midnight", "Africa/Cairo", "daily 00:00", "2026-10-29 12:00 +0300", []string{
		"2026-10-30 00:00 +0200", "2026-10-31 00:00 +0200",
	}},
	{"Cairo, back, the hour before", "Africa/Cairo", "daily 23:30", "2026-10-29 12:00 +0300", []string{
		"2026-10-29 23:30 +0300", "2026-10-30 23:30 +0200",
	}},
}

// dates: which days are meant.
var dates = []planCase{
	{"day 31 is the last of shorter months", "UTC", "monthly 31 12:00", "2026-01-30 12:00 +0000", []string{
		"2026-01-31 12:00 +0000", "2026-02-28 12:00 +0000", "2026-03-31 12:00 +0000", "2026-04-30 12:00 +0000",
	}},
	{"the last day", "UTC", "monthly last 23:00", "2028-01-31 23:00 +0000", []string{
		"2028-02-29 23:00 +0000", "2028-03-31 23:00 +0000",
	}},
	{"day 30 is the last of February only", "UTC", "monthly 30 12:00", "2026-01-30 12:00 +0000", []string{
		"2026-02-28 12:00 +0000", "2026-03-30 12:00 +0000", "2026-04-30 12:00 +0000",
	}},
	{"cron leaves months without day 31 out", "UTC", "0 12 31 * *", "2026-01-30 12:00 +0000", []string{
		"2026-01-31 12:00 +0000", "2026-03-31 12:00 +0000", "2026-05-31 12:00 +0000",
	}},
	{"29 February is the 28th in other years", "UTC", "yearly 02-29 20:00", "2026-06-01 12:00 +0000", []string{
		"2027-02-28 20:00 +0000", "2028-02-29 20:00 +0000", "2029-02-28 20:00 +0000",
	}},
	{"cron leaves other years out", "UTC", "0 12 29 2 *", "2026-06-01 12:00 +0000", []string{
		"2028-02-29 12:00 +0000", "2032-02-29 12:00 +0000",
	}},
	{"day of month or day of week", "UTC", "0 12 13 * 5", "2026-02-06 12:00 +0000", []string{
		"2026-02-13 12:00 +0000", "2026-02-20 12:00 +0000", "2026-02-27 12:00 +0000", "2026-03-06 12:00 +0000", "2026-03-13 12:00 +0000",
		"2026-03-20 12:00 +0000", "2026-03-27 12:00 +0000", "2026-04-03 12:00 +0000", "2026-04-10 12:00 +0000", "2026-04-13 12:00 +0000",
	}},
	{"a day of month that begins with a star is not given", "UTC", "0 12 */10 * mon", "2026-01-01 00:00 +0000", []string{
		"2026-05-11 12:00 +0000", "2026-06-01 12:00 +0000", "2026-08-31 12:00 +0000", "2026-09-21 12:00 +0000",
	}},
	{"a day of week that begins with a star is not given", "UTC", "0 12 1 * */6", "2026-01-01 00:00 +0000", []string{
		"2026-02-01 12:00 +0000", "2026-03-01 12:00 +0000", "2026-08-01 12:00 +0000",
	}},
	{"one of two comes", "UTC", "0 0 30 2 1", "2027-01-31 12:00 +0000", []string{
		"2027-02-01 00:00 +0000", "2027-02-08 00:00 +0000",
	}},
	{"Sunday as 7", "UTC", "0 12 * * 7", "2026-01-01 00:00 +0000", []string{"2026-01-04 12:00 +0000", "2026-01-11 12:00 +0000"}},
	{"Sunday as 7, in a month that begins with one", "UTC", "0 12 * * 7", "2026-01-28 00:00 +0000", []string{"2026-02-01 12:00 +0000"}},
	{"a range to Sunday as 7", "UTC", "0 12 * * 6-7", "2026-01-01 00:00 +0000", []string{
		"2026-01-03 12:00 +0000", "2026-01-04 12:00 +0000", "2026-01-10 12:00 +0000",
	}},
	{"a range to Sunday by name", "UTC", "weekly sat-sun 12:00", "2026-01-01 00:00 +0000", []string{
		"2026-01-03 12:00 +0000", "2026-01-04 12:00 +0000", "2026-01-10 12:00 +0000",
	}},
	{"a range from Sunday by name", "UTC", "0 12 * * sun-mon", "2026-01-01 00:00 +0000", []string{
		"2026-01-04 12:00 +0000", "2026-01-05 12:00 +0000", "2026-01-11 12:00 +0000",
	}},
	{"steps start anew in each hour", "UTC", "*/7 * * * *", "2026-01-01 12:45 +0000", []string{
		"2026-01-01 12:49 +0000", "2026-01-01 12:56 +0000", "2026-01-01 13:00 +0000",
	}},
	{"names of months, and case", "UTC", "0 12 1 Jan,JUL-sep *", "2026-01-01 12:00 +0000", []string{
		"2026-07-01 12:00 +0000", "2026-08-01 12:00 +0000", "2026-09-01 12:00 +0000", "2027-01-01 12:00 +0000",
	}},
	{"the forms' case, and space", "UTC", " \tWEEKLY  Mon,THU  1:00\n", "2026-01-01 12:00 +0000", []string{
		"2026-01-05 01:00 +0000", "2026-01-08 01:00 +0000",
	}},
	{"@weekly", "UTC", "@Weekly", "2026-01-01 12:00 +0000", []string{"2026-01-04 00:00 +0000", "2026-01-11 00:00 +0000"}},
	{"@monthly", "UTC", "@monthly", "2026-01-01 12:00 +0000", []string{"2026-02-01 00:00 +0000", "2026-03-01 00:00 +0000"}},
	{"@yearly", "UTC", "@yearly", "2026-01-01 12:00 +0000", []string{"2027-01-01 00:00 +0000", "2028-01-01 00:00 +0000"}},
	{"nothing is planned before 1970", "UTC", "daily 02:30", "1960-01-01 00:00 +0000", []string{"1970-01-01 02:30 +0000"}},
	{"2100 would be no leap year, and nothing is planned there", "UTC", "yearly 12-31 23:59", "2098-01-01 00:00 +0000", []string{
		"2098-12-31 23:59 +0000", "2099-12-31 23:59 +0000", "1970-01-01 00:00 +0000",
	}},
	{"the year 2100 begins in UTC", "America/New_York", "yearly 12-31 20:00", "2098-02-01 00:00 +0000", []string{
		"2098-12-31 20:00 -0500", "1969-12-31 19:00 -0500",
	}},
}
