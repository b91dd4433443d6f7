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
	daysGiven, weekdayGiven               bool   // cron: either is enough where both are
	last                                  bool   // days beyond the month's end mean its last
	follows                               bool   // the wall clock
	systemd, cron                         string // the same for other programs; empty: they can't say it
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

// join writes numbers as a list.
func join(numbers []int, format string) string {
	var words []string
	for _, n := range numbers {
		words = append(words, fmt.Sprintf(format, n))
	}
	return strings.Join(words, ",")
}

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
		p.systemd, p.cron = fmt.Sprintf("*-*-* *:%02d", minute), fmt.Sprintf("%d * * * *", minute)
	case "daily":
		p.text = "daily " + at
		p.systemd, p.cron = "*-*-* "+at, fmt.Sprintf("%d %d * * *", minute, hour)
	case "weekly":
		p.weekday = drawSet(t, "weekdays", 0, 6)
		p.text = "weekly " + names(p.weekday) + " " + at
		p.systemd, p.cron = names(p.weekday)+" *-*-* "+at, fmt.Sprintf("%d %d * * %s", minute, hour, join(p.weekday, "%d"))
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
	switch {
	case day == 32:
		p.text, p.days = "monthly last "+at, []int{31}
		p.systemd, p.cron = "*-*~01 "+at, fmt.Sprintf("%d %d l * *", p.minutes[0], p.hours[0])
	case day > 28: // others leave shorter months out
		p.text, p.days = fmt.Sprintf("monthly %d %s", day, at), []int{day}
	default:
		p.text, p.days = fmt.Sprintf("monthly %d %s", day, at), []int{day}
		p.systemd, p.cron = fmt.Sprintf("*-*-%02d %s", day, at), fmt.Sprintf("%d %d %d * *", p.minutes[0], p.hours[0], day)
	}
}

func (p *plan) yearly(yearday int, at string) {
	date := time.Date(2024, 1, yearday, 0, 0, 0, 0, time.UTC)
	p.text = "yearly " + date.Format("01-02 ") + at
	p.months, p.days, p.last = []int{int(date.Month())}, []int{date.Day()}, true
	if yearday != 31+29 { // others leave years without it out
		p.systemd = date.Format("*-01-02 ") + at
		p.cron = fmt.Sprintf("%d %d %d %d *", p.minutes[0], p.hours[0], date.Day(), date.Month())
	}
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
	if !p.daysGiven || !p.weekdayGiven {
		p.systemd = names(p.weekday) + " *-" + join(p.months, "%02d") + "-" + join(p.days, "%02d") + " " +
			join(p.hours, "%02d") + ":" + join(p.minutes, "%02d")
	}
	// For croniter `*/2` is given, and `1,*` isn't; and it fails where one of two given fields never comes.
	plain := p.daysGiven == (len(p.days) < 31) && p.weekdayGiven == (len(p.weekday) < 7)
	if plain && p.days[0] <= 28 {
		p.cron = p.text
	}
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
