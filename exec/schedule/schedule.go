package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A schedule, and how its text is read.

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

// longest is how many bytes a schedule's text has at most. The widest table of minutes fits in.
const longest = 255

// forms is what an error about a text of no known form ends with.
const forms = "write every 15m, hourly :15, daily 02:30, weekly mon-fri 01:00, monthly last 23:00, " +
	"yearly 02-14 20:00, or the five fields of cron: 30 2 * * 1-5"

// Parse reads a schedule. Its errors say what is wrong with the text, and what to write instead.
func Parse(text string) (*Schedule, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("schedule %.40q…: %d bytes; at most %d are read", text, len(text), longest)
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }); at >= 0 {
		letter, _ := utf8.DecodeRuneInString(text[at:])
		return nil, fmt.Errorf("schedule %q: %q is not a letter of English, nor a sign of a schedule: %s", text, letter, forms)
	}
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return nil, errors.New("the schedule is empty: " + forms)
	}
	s, err := parse(words[0], words[1:])
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	return s, nil
}

const takesMinute = "the minute after a colon: write hourly :00 or hourly :15"

// named are the forms that begin with a name, with how many words follow it.
var named = map[string]struct {
	words int
	takes string
	parse func(words []string) (*Schedule, error)
}{
	"every":   {1, "one duration: " + writeDuration, parseEvery},
	"hourly":  {1, takesMinute, parseHourly},
	"daily":   {1, "a time: write daily 02:30", parseDaily},
	"weekly":  {2, "days and a time: write weekly mon 01:00, weekly mon-fri 01:00 or weekly mon,thu 01:00", parseWeekly},
	"monthly": {2, "a day and a time: write monthly 1 00:00 or monthly last 23:00", parseMonthly},
	"yearly":  {2, "a date and a time: write yearly 02-14 20:00", parseYearly},
}

func parse(form string, words []string) (*Schedule, error) {
	switch f, known := named[form]; {
	case known && len(words) == f.words:
		return f.parse(words)
	case known && strings.Contains(strings.Join(words, " "), "/"):
		return nil, fmt.Errorf("%s takes %s; a zone stands in the column or key time_zone", form, f.takes)
	case known:
		return nil, fmt.Errorf("%s takes %s", form, f.takes)
	case strings.HasPrefix(form, "@"):
		return parseAlias(form, words)
	case strings.HasPrefix(form, "tz=") || strings.HasPrefix(form, "cron_tz="):
		return nil, errors.New("the zone is not part of a schedule: write it into the column time_zone, or set the key time_zone")
	}
	return parseCron(append([]string{form}, words...))
}

// units are those of durations, in seconds.
var units = map[byte]int64{'s': 1, 'm': minute, 'h': 60 * minute, 'd': day}

// longestInterval is a hundred years: a longer one ends where nothing is planned any more.
const longestInterval = 36500 * day

const writeDuration = "write a whole number with s, m, h or d (24 h), as in every 90s, every 15m, every 2h, every 1d"

func parseEvery(words []string) (*Schedule, error) {
	number, unit := words[0][:len(words[0])-1], units[words[0][len(words[0])-1]]
	if unit == 0 || !digits(number) {
		return nil, fmt.Errorf("%q is no duration: %s", words[0], writeDuration)
	}
	count, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || count > longestInterval/unit:
		return nil, fmt.Errorf("%s is too long: at most every 36500d", words[0])
	case count == 0:
		return nil, errors.New("an interval is at least 1s: write every 1s")
	}
	return &Schedule{text: "every " + interval(count*unit), every: count * unit}, nil
}

// interval writes a duration in its greatest whole unit.
func interval(seconds int64) string {
	for _, unit := range []byte("dhm") {
		if seconds%units[unit] == 0 {
			return strconv.FormatInt(seconds/units[unit], 10) + string(unit)
		}
	}
	return strconv.FormatInt(seconds, 10) + "s"
}

func parseHourly(words []string) (*Schedule, error) {
	if !strings.HasPrefix(words[0], ":") {
		return nil, errors.New("hourly takes " + takesMinute)
	}
	minute, err := two(words[0][1:], "minute", 0, 59)
	if err != nil {
		return nil, err
	}
	c := anyTime()
	c.minutes, c.follows = 1<<minute, true
	return &Schedule{text: fmt.Sprintf("hourly :%02d", minute), times: c}, nil
}

func parseDaily(words []string) (*Schedule, error) {
	c := anyTime()
	at, err := c.at(words[0])
	if err != nil {
		return nil, err
	}
	return &Schedule{text: "daily " + at, times: c}, nil
}

func parseWeekly(words []string) (*Schedule, error) {
	c := anyTime()
	var err error
	if c.weekdays, err = weekdayNames.set(words[0]); err != nil {
		return nil, err
	}
	at, err := c.at(words[1])
	if err != nil {
		return nil, err
	}
	return &Schedule{text: "weekly " + weekdayList(c.weekdays) + " " + at, times: c}, nil
}

func parseMonthly(words []string) (*Schedule, error) {
	c := anyTime()
	at, err := c.at(words[1])
	if err != nil {
		return nil, err
	}
	date, name := 31, "last"
	if words[0] != name {
		if strings.ContainsAny(words[0], ",-*/") {
			return nil, fmt.Errorf("monthly takes one day, not %q: write several in the form of cron, as 0 6 1,15 * *", words[0])
		}
		if date, err = number(words[0], "day", 1, 31); err != nil {
			return nil, fmt.Errorf("%w, or last", err)
		}
		name = strconv.Itoa(date)
	}
	c.days, c.last = 1<<date, true
	return &Schedule{text: "monthly " + name + " " + at, times: c}, nil
}

func parseYearly(words []string) (*Schedule, error) {
	mm, dd, found := strings.Cut(words[0], "-")
	if !found || len(mm) != 2 || len(dd) != 2 {
		return nil, fmt.Errorf("%q is not a date: write month and day with two digits each, as in yearly 02-14 20:00", words[0])
	}
	month, err := two(mm, "month", 1, 12)
	if err != nil {
		return nil, err
	}
	longest := time.Date(2000, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() // in a leap year
	date, err := two(dd, "day", 1, longest)
	if err != nil {
		return nil, err
	}
	c := anyTime()
	at, err := c.at(words[1])
	if err != nil {
		return nil, err
	}
	c.months, c.days, c.last = 1<<month, 1<<date, true
	return &Schedule{text: fmt.Sprintf("yearly %02d-%02d %s", month, date, at), times: c}, nil
}

// anyTime is the calendar with every minute in it.
func anyTime() *calendar {
	return &calendar{minutes: 1<<60 - 1, hours: 1<<24 - 1, days: 1<<32 - 2, months: 1<<13 - 2, weekdays: 1<<7 - 1}
}

// at sets the time of day, and returns its canonical form.
func (c *calendar) at(text string) (string, error) {
	hh, mm, found := strings.Cut(text, ":")
	if !found || len(mm) != 2 || len(hh) > 2 || !digits(hh) || !digits(mm) {
		return "", fmt.Errorf("%q is not a time: write hours and minutes, as in 02:30", text)
	}
	if hh == "24" {
		return "", errors.New("24:00 is not a time: write 00:00, with the next day if a day is given")
	}
	hour, err := number(hh, "hour", 0, 23)
	if err != nil {
		return "", err
	}
	minute, err := two(mm, "minute", 0, 59)
	if err != nil {
		return "", err
	}
	c.hours, c.minutes = 1<<hour, 1<<minute
	return fmt.Sprintf("%02d:%02d", hour, minute), nil
}

// two is a number that is written with two digits.
func two(text, name string, low, high int) (int, error) {
	if len(text) != 2 {
		return 0, fmt.Errorf("%s %q: write it with two digits, %02d to %02d", name, text, low, high)
	}
	return number(text, name, low, high)
}

// number is one that has its bounds.
func number(text, name string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if !digits(text) || len(text) > 2 || err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s %q: write a number from %d to %d", name, text, low, high)
	}
	return n, nil
}

// digits reports whether a text is a number without sign.
func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
