package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cron's fields, and schedules in words.

// field is one of cron's five, or the days of `weekly`.
type field struct {
	name      string
	low, high int      // what is written from one to the other; `*` is all
	beyond    int      // one more that may be written: Sunday as 7
	names     []string // of low and those after it
	nameless  bool     // numbers are refused: only names are written
}

var (
	months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	cronFields = [5]field{
		{name: "minute", high: 59},
		{name: "hour", high: 23},
		{name: "day of month", low: 1, high: 31},
		{name: "month", low: 1, high: 12, names: months},
		{name: "day of week", high: 6, beyond: 7, names: days},
	}
	weekdayNames = field{name: "day", high: 6, beyond: 7, names: days, nameless: true}
)

// aliases are cron's words for some of its schedules.
var aliases = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

func parseAlias(word string, rest []string) (*Schedule, error) {
	cron, known := aliases[word]
	switch {
	case known && len(rest) == 0:
	case known:
		return nil, fmt.Errorf("%s stands alone: leave out %q, or write a form with a time, as daily 02:30", word, strings.Join(rest, " "))
	case word == "@reboot":
		return nil, errors.New("@reboot is not a time: write no schedule, and insert a row when the job should run")
	case word == "@every":
		return nil, errors.New("@every is not known: write every 90m")
	default:
		return nil, fmt.Errorf("%q is not known: write @hourly, @daily, @weekly, @monthly or @yearly", word)
	}
	s, err := parseCron(strings.Fields(cron))
	if err != nil {
		return nil, err
	}
	s.text = word
	return s, nil
}

func parseCron(words []string) (*Schedule, error) {
	switch n := len(words); {
	case n == 6 || n == 7:
		return nil, fmt.Errorf("%d fields: cron's are five: minute, hour, day of month, month, day of week; seconds "+
			"and years are left out (for less than a minute write every 10s)", n)
	case n != 5 || !strings.ContainsAny(words[0], "0123456789*?"):
		return nil, errors.New("it has none of the known forms: " + forms)
	}
	var sets [5]uint64
	for i, f := range cronFields {
		var err error
		if sets[i], err = f.set(words[i]); err != nil {
			return nil, err
		}
	}
	c := &calendar{minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4]}
	// A field that begins with a star is not given, as in every cron: `*/2` and `mon` mean both.
	c.either = !strings.HasPrefix(words[2], "*") && !strings.HasPrefix(words[4], "*")
	c.follows = words[1] == "*"
	if _, comes := c.next(0); !comes {
		return nil, fmt.Errorf("day %s of month %s never comes: write a day that the month has, or monthly last 23:00 for the last",
			words[2], words[3])
	}
	return &Schedule{text: strings.Join(words, " "), times: c}, nil
}

// set reads a field: a list of values, ranges and steps.
func (f field) set(text string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		values, err := f.part(part)
		if err != nil {
			return 0, fmt.Errorf("%s %q: %w", f.name, text, err)
		}
		set |= values
	}
	if f.beyond != 0 {
		set = set&(1<<f.beyond-1) | set>>f.beyond
	}
	return set, nil
}

// part reads one part of a list.
func (f field) part(text string) (uint64, error) {
	body, stepText, stepped := strings.Cut(text, "/")
	from, to, ranged := strings.Cut(body, "-")
	if f.nameless && (stepped || body == "*") {
		return 0, errors.New("write names, lists and ranges of them: mon,thu or mon-fri; each day is daily")
	}
	low, high := f.low, f.high
	var err error
	if body != "*" {
		if low, err = f.value(from); err != nil {
			return 0, err
		}
		high = low
	}
	if ranged {
		if high, err = f.value(to); err != nil {
			return 0, err
		}
		if to == "sun" && low > 0 {
			high = f.beyond
		}
	}
	step := 1
	if stepped {
		if step, err = f.step(stepText, low, high, body); err != nil {
			return 0, err
		}
		if body != "*" && !ranged {
			return 0, fmt.Errorf("a step needs a range: write %s-%s/%d", f.text(f.within(low), body), f.text(f.high, body), step)
		}
	}
	if low > high {
		return 0, f.wraps(from, low, high, step)
	}
	var set uint64
	for value := low; value <= high; value += step {
		set |= 1 << value
	}
	return set, nil
}

// step reads what stands behind a slash.
func (f field) step(text string, low, high int, body string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || !digits(text) || len(text) > 4 || n == 0:
		return 0, fmt.Errorf("step %q: write a number from 1 on, as in */5", text)
	case body != "*" || n <= high-low:
		return n, nil
	}
	return 0, fmt.Errorf("a step of %d meets %s only: write %s", n, f.text(low, body), f.text(low, body))
}

// wraps is the error about a range whose end comes before its beginning.
func (f field) wraps(from string, low, high, step int) error {
	size := f.high - f.low + 1
	if low = f.within(low); low > high {
		high += size
	}
	var before, behind uint64 // the end of a round
	for value := low; value <= high; value += step {
		if value <= f.high {
			before |= 1 << value
		} else {
			behind |= 1 << (value - size)
		}
	}
	name := func(value int) string { return f.text(value, from) }
	return fmt.Errorf("the range ends before it begins: write %s", strings.Join(append(spans(before, "-", name), spans(behind, "-", name)...), ","))
}

// within is a value, or the one that it stands for: 0 where Sunday is written as 7.
func (f field) within(value int) int {
	if value > f.high {
		return f.low
	}
	return value
}

// text writes a value as a name if the example has one.
func (f field) text(value int, example string) string {
	if len(f.names) == 0 || digits(example[:1]) {
		return strconv.Itoa(value)
	}
	return f.names[(value-f.low)%len(f.names)]
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.low + i, nil
	}
	if n, err := number(text, f.name, f.low, max(f.high, f.beyond)); err == nil && !f.nameless {
		return n, nil
	}
	return 0, f.refuse(text)
}

// refuse is the error about a text that is not a value: some mean something elsewhere.
func (f field) refuse(text string) error {
	switch {
	case text == "":
		return errors.New("a value is missing: write one, a range (1-5), a list (1,15), or *")
	case strings.Contains(text, "?"):
		return errors.New("? is not supported: write *")
	case strings.Contains(text, "#"):
		return errors.New("# is not supported: write weekly mon 01:00, and let the job look which Monday of the month it is")
	case text == "l" || strings.HasSuffix(text, "l") && f.beyond != 0 || text == "lw":
		return errors.New("an L is not supported: write monthly last 23:00 for the last day of the month")
	case strings.HasSuffix(text, "w") && digits(text[:len(text)-1]):
		return errors.New("a W is not supported: write the days on which the job must look, and let it decide, as in 0 1 14-16 * *")
	case len(f.names) == 0:
		return fmt.Errorf("%q is not a value: write %d to %d, *, or lists, ranges and steps of these: 1,15 1-5 */5", text, f.low, f.high)
	case f.nameless:
		return fmt.Errorf("%q is not a day: write %s, lists or ranges of these: mon,thu mon-fri", text, strings.Join(f.names, ", "))
	}
	return fmt.Errorf("%q is not a value: write %d to %d, %s to %s, *, or lists and ranges of these", text, f.low,
		max(f.high, f.beyond), f.names[0], f.names[len(f.names)-1])
}

// weekdayList writes days of the week, Monday first.
func weekdayList(set uint64) string {
	return strings.Join(spans(set&^1|set&1<<7, "-", func(n int) string { return days[n%7] }), ",")
}

// Explain says in plain English when the schedule is due, and, if so wanted, what it does at changes of clocks.
func (s *Schedule) Explain(changes bool) string {
	switch {
	case s.times != nil && !changes:
		return s.times.explain()
	case s.times == nil:
		return s.text + " of elapsed time, counted from the previous planned time; clock changes don't matter"
	case s.times.follows:
		return s.times.explain() + ", by local time: in both passes of a repeated hour, " +
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
