package schedule_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/exec/schedule"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// A case is written by hand: the first planned times after a moment, as the clock on the wall shows
// them.
type planCase struct {
	name, zone, text, after string
	want                    []string
}

// planned is how the cases write a planned time: with the distance from UTC, which tells the passes
// of a repeated hour apart.
const planned = "2006-01-02 15:04 -0700"

func TestPlannedTimes(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(forward, back, lost, midnight, dates) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, zone := read(t, c.text), load(t, c.zone)
			moment := parse(t, c.after)
			for _, want := range c.want {
				moment = s.Next(moment, zone)
				must.Equal(t, time.Unix(moment, 0).In(zone).Format(planned), want, "%s in %s: … is planned", s, zone)
			}
		})
	}
}

func read(t *testing.T, text string) *schedule.Schedule {
	t.Helper()
	s := must.Get(schedule.Parse(text))(t)
	return s
}

func load(t *testing.T, name string) *time.Location {
	t.Helper()
	zone := must.Get(schedule.Zone(name))(t)
	return zone
}

func parse(t *testing.T, moment string) int64 {
	t.Helper()
	at := must.Get(time.Parse(planned, moment))(t)
	return at.Unix()
}

// code is what a page has between backquotes.
var code = regexp.MustCompile("`([^`]+)`")

// The page's tables are true: what it says is read is read, and what it says is refused is refused.
func TestThePageTellsWhatIsReadAndWhatIsRefused(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile("../../docs/time.md"))(t)
	_, section, _ := strings.Cut(string(content), "\n## Schedules\n")
	section, _, _ = strings.Cut(section, "\n## ")
	forms, _, _ := strings.Cut(section, "\n### ")
	_, refused, _ := strings.Cut(section, "\n### What is refused\n")
	if n := judgeRows(t, forms, true); n < 15 {
		t.Errorf("the page tells of %d forms only: this test looks for the wrong thing", n)
	}
	if n := judgeRows(t, refused, false); n < 15 {
		t.Errorf("the page tells of %d refusals only: this test looks for the wrong thing", n)
	}
}

// judgeRows reads the first column of the tables in a text, and counts what stands there.
func judgeRows(t *testing.T, text string, isRead bool) int {
	t.Helper()
	count := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, match := range code.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			count++
			if _, err := schedule.Parse(match[1]); (err == nil) != isRead {
				t.Errorf("docs/time.md has %s in the wrong table: %v", match[1], err)
			}
		}
	}
	return count
}

func TestCanonicalFormsAndExplanations(t *testing.T) {
	t.Parallel()
	const fixed = "; a time that the clocks skip runs right after the change; a time that comes twice runs the first time"
	const follows = ", by local time"
	for _, c := range []struct{ text, canonical, explained string }{
		{"every 90s", "every 90s", "every 90s of elapsed time"},
		{"every 120s", "every 2m", "every 2m of elapsed time"},
		{"every 60m", "every 1h", "every 1h of elapsed time"},
		{"EVERY 24h", "every 1d", "every 1d of elapsed time"},
		{"every 7d", "every 7d", "every 7d of elapsed time"},
		{"hourly :05", "hourly :05", "each hour at minute 5" + follows},
		{"Daily 2:30", "daily 02:30", "at 02:30 each day" + fixed},
		{"weekly mon,tue,wed,fri 01:00", "weekly mon-wed,fri 01:00", "at 01:00 on Monday to Wednesday and Friday" + fixed},
		{"weekly sun,sat 01:00", "weekly sat,sun 01:00", "at 01:00 on Saturday and Sunday" + fixed},
		{"weekly sun-sat 01:00", "weekly mon-sun 01:00", "at 01:00 each day" + fixed},
		{"weekly SUN 01:00", "weekly sun 01:00", "at 01:00 on Sunday" + fixed},
		{"monthly 01 00:00", "monthly 1 00:00", "at 00:00 on day 1 of each month" + fixed},
		{"monthly 30 00:00", "monthly 30 00:00", "at 00:00 on day 30, or the last in shorter ones, of each month" + fixed},
		{"monthly 31 00:00", "monthly 31 00:00", "at 00:00 on the last day of each month" + fixed},
		{"monthly LAST 23:00", "monthly last 23:00", "at 23:00 on the last day of each month" + fixed},
		{"yearly 02-14 20:00", "yearly 02-14 20:00", "at 20:00 on day 14 in February" + fixed},
		{"yearly 02-29 20:00", "yearly 02-29 20:00", "at 20:00 on day 29, or the last in shorter ones, in February" + fixed},
		{"30  2 * *\t1-5", "30 2 * * 1-5", "at 02:30 on Monday to Friday" + fixed},
		{"* * * * *", "* * * * *", "every minute" + follows},
		{"*/20 * * * *", "*/20 * * * *", "each hour at minute 0, 20 and 40" + follows},
		{"* * * JAN,feb mon", "* * * jan,feb mon", "every minute on Monday in January and February" + follows},
		{"* 2 * * *", "* 2 * * *", "every minute of hour 2 each day" + fixed},
		{"*/15 9-17 * * *", "*/15 9-17 * * *", "at minute 0, 15, 30 and 45 of hour 9 to 17 each day" + fixed},
		{"0 6,18 1,15 * *", "0 6,18 1,15 * *", "at 06:00 and 18:00 on day 1 and 15 of each month" + fixed},
		{"0 0 29 2 mon", "0 0 29 2 mon", "at 00:00 on day 29 in February, and also on Monday in February" + fixed},
		{"0 0 * 8-12/6 *", "0 0 * 8-12/6 *", "at 00:00 each day in August" + fixed},
		{"@midnight", "@midnight", "at 00:00 each day" + fixed},
		{"@annually", "@annually", "at 00:00 on day 1 in January" + fixed},
		{"0 9 1 * mon", "0 9 1 * mon", "at 09:00 on day 1 of each month, and also on Monday" + fixed},
		{"0 9 */15 * mon", "0 9 */15 * mon", "at 09:00 on day 1, 16 and 31 of each month if it is Monday" + fixed},
		{"0 9 1-31 6 mon", "0 9 1-31 6 mon", "at 09:00 each day in June" + fixed},
		{"@Hourly", "@hourly", "each hour at minute 0" + follows},
		{"@yearly", "@yearly", "at 00:00 on day 1 in January" + fixed},
	} {
		s := read(t, c.text)
		check.Equal(t, s.String(), c.canonical, "%q is %q", c.text, s)
		if !strings.HasPrefix(s.Explain(true), c.explained) {
			t.Errorf("%s: %q, not %q", s, s.Explain(true), c.explained)
		}
		if got := s.Explain(false); strings.Contains(got, "clocks skip") || strings.Contains(got, "the wall") {
			t.Errorf("%s, where clocks are never changed: %q", s, got)
		}
	}
}

// refusals are texts that no schedule is read from, what is said of them, and what it tells to write
// instead: itself a schedule, or a part of one (in brackets).
var refusals = []struct{ text, said, instead string }{
	{"", "the schedule is empty", "daily 02:30"},
	{" \t ", "the schedule is empty", "every 15m"},
	{"sometimes", "none of the known forms", "hourly :15"},
	{"mon 10:00", "none of the known forms", "weekly mon-fri 01:00"},
	{"a b c d e", "none of the known forms", "30 2 * * 1-5"},
	{"0 0 * *", "none of the known forms", "30 2 * * 1-5"},
	{strings.Repeat("* ", 128), "256 bytes; at most 255", ""},

	{"every", "takes one duration", "every 15m"},
	{"every 15 minutes", "takes one duration", "every 15m"},
	{"every 15", `"15" is no duration`, "every 15m"},
	{"every m", `"m" is no duration`, "every 15m"},
	{"every 1h30m", `"1h30m" is no duration`, "every 90s"},
	{"every 1.5h", `"1.5h" is no duration`, "every 2h"},
	{"every -5m", `"-5m" is no duration`, "every 15m"},
	{"every 1w", `"1w" is no duration`, "every 1d"},
	{"every 0s", "at least 1s", "every 1s"},
	{"every 36501d", "too long", "every 36500d"},
	{"every 99999999999999999999s", "too long", "every 36500d"},

	{"hourly", "the minute after a colon", "hourly :15"},
	{"hourly 15", "the minute after a colon", "hourly :15"},
	{"hourly :5", `minute "5": write it with two digits`, ""},
	{"hourly :60", `minute "60"`, ""},
	{"daily", "takes a time", "daily 02:30"},
	{"daily 02:30 Europe/Berlin", "a zone stands in the column or key time_zone", "daily 02:30"},
	{"monthly 31", "takes a day and a time", "monthly 1 00:00"},
	{"daily 02:30 04:30", "takes a time", "daily 02:30"},
	{"daily noon", `"noon" is not a time`, "[02:30]"},
	{"daily 2", `"2" is not a time`, "[02:30]"},
	{"daily 02:30:00", `"02:30:00" is not a time`, "[02:30]"},
	{"daily 2:3", `"2:3" is not a time`, "[02:30]"},
	{"daily 25:00", `hour "25": write a number from 0 to 23`, ""},
	{"daily 12:60", `minute "60"`, ""},
	{"daily -1:00", `"-1:00" is not a time`, "[02:30]"},
	{"daily 24:00", "24:00 is not a time", "[00:00]"},
	{"weekly sun 24:00", "24:00 is not a time", "[00:00]"},
	{"weekly mon", "takes days and a time", "weekly mon 01:00"},
	{"weekly 01:00", "takes days and a time", "weekly mon 01:00"},
	{"weekly 1 01:00", `"1" is not a day`, "[mon,thu]"},
	{"weekly monday 01:00", `"monday" is not a day`, "[mon,thu]"},
	{"weekly * 01:00", "each day is daily", "[mon-fri]"},
	{"weekly mon-fri/2 01:00", "names, lists and ranges", "[mon-fri]"},
	{"weekly fri-mon 01:00", "ends before it begins", "[fri,sat,sun,mon]"},
	{"weekly mon, 01:00", "a value is missing", ""},
	{"monthly 1", "takes a day and a time", "monthly 1 00:00"},
	{"monthly 0 00:00", `day "0"`, ""},
	{"monthly 32 00:00", `day "32"`, "[last]"},
	{"monthly -1 00:00", "takes one day", "0 6 1,15 * *"},
	{"monthly 1,15 06:00", "takes one day", "0 6 1,15 * *"},
	{"yearly 00:00", "takes a date and a time", "yearly 02-14 20:00"},
	{"yearly 2-14 20:00", `"2-14" is not a date`, "yearly 02-14 20:00"},
	{"yearly feb-14 20:00", `"feb-14" is not a date`, "yearly 02-14 20:00"},
	{"yearly 13-01 20:00", `month "13"`, ""},
	{"yearly 02-30 20:00", `day "30": write a number from 1 to 29`, ""},
	{"yearly 04-31 20:00", `day "31": write a number from 1 to 30`, ""},

	{"60 * * * *", `"60" is not a value: write 0 to 59`, ""},
	{"* 24 * * *", `"24" is not a value: write 0 to 23`, ""},
	{"* * 0 * *", `"0" is not a value: write 1 to 31`, ""},
	{"* * * 13 *", `"13" is not a value: write 1 to 12, jan to dec`, ""},
	{"* * * * 8", `"8" is not a value: write 0 to 7, sun to sat`, ""},
	{"* * * foo *", `"foo" is not a value`, ""},
	{"-5 * * * *", "a value is missing", "[1-5]"},
	{"1,,2 * * * *", "a value is missing", "[1,15]"},
	{"+5 * * * *", `"+5" is not a value`, ""},
	{"0 22-2 * * *", "ends before it begins", "[22,23,0-2]"},
	{"0 23-0 * * *", "ends before it begins", "[23,0]"},
	{"0 22-2/2 * * *", "ends before it begins", "[22,0,2]"},
	{"0 0 28-3 * *", "ends before it begins", "[28-31,1-3]"},
	{"0 0 28-4/3 * *", "ends before it begins", "[28,31,3]"},
	{"0 0 * nov-feb *", "ends before it begins", "[nov,dec,jan,feb]"},
	{"0 0 * * fri-mon", "ends before it begins", "[fri,sat,sun,mon]"},
	{"0 0 * * 6-1", "ends before it begins", "[6,0,1]"},
	{"5/15 * * * *", "a step needs a range", "[5-59/15]"},
	{"0 0 * * mon/2", "a step needs a range", "[mon-sat/2]"},
	{"*/0 * * * *", `step "0"`, "[*/5]"},
	{"*/x * * * *", `step "x"`, "[*/5]"},
	{"*/-5 * * * *", `step "-5"`, "[*/5]"},
	{"*/ * * * *", `step ""`, "[*/5]"},
	{"5-5/9223372036854775807 * * * *", "step", "[*/5]"},
	{"*/90 * * * *", "meets 0 only", "[0]"},
	{"0 */36 * * *", "meets 0 only", "[0]"},
	{"0 0 */31 * *", "meets 1 only", "[1]"},
	{"0 0 1 */12 *", "meets jan only", "[jan]"},
	{"0 0 * * 7-1", "ends before it begins", "[0,1]"},
	{"0 0 * * 7-2/2", "ends before it begins", "[0,2]"},
	{"0 0 * * 7/2", "a step needs a range", "[0-6/2]"},
	{"da\u0130ly 02:30", "'\u0130' is not a letter of English", "daily 02:30"},
	{"daily\u00a002:30", "'\\u00a0' is not a letter of English", "daily 02:30"},
	{"wee\u212aly mon 01:00", "'\u212a' is not a letter of English", "weekly mon-fri 01:00"},
	{"0 0 L * *", "L is not supported", "monthly last 23:00"},
	{"0 0 LW * *", "L is not supported", "monthly last 23:00"},
	{"0 0 L-3 * *", "L is not supported", "monthly last 23:00"},
	{"0 0 * * 5L", "L is not supported", "monthly last 23:00"},
	{"0 0 15W * *", "W is not supported", "0 1 14-16 * *"},
	{"0 0 * * 1#2", "# is not supported", "weekly mon 01:00"},
	{"0 0 * * mon#1", "# is not supported", "weekly mon 01:00"},
	{"0 0 ? * 1", "? is not supported", "[*]"},
	{"? 0 1 * *", "? is not supported", "[*]"},
	{"0 0 0 * * *", "6 fields", "every 10s"},
	{"0 0 12 * * ? 2027", "7 fields", "every 10s"},
	{"TZ=Europe/Berlin 0 0 * * *", "time_zone", ""},
	{"CRON_TZ=UTC daily 02:00", "time_zone", ""},
	{"@reboot", "@reboot is not a time", ""},
	{"@every 90m", "@every is not known", "every 90m"},
	{"@noon", `"@noon" is not known`, "@daily"},
	{"@daily 05:00", "@daily stands alone", "daily 02:30"},
	{"0 0 30 2 *", "never comes", "monthly last 23:00"},
	{"0 0 30-31 feb *", "never comes", "monthly last 23:00"},
	{"0 0 31 4,6,9,11 *", "never comes", "monthly last 23:00"},
	{"0 0 31 2 */2", "never comes", "monthly last 23:00"},
}

func TestRefusalsSayWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			s, err := schedule.Parse(c.text)
			if err == nil {
				t.Fatalf("it is read as %s", s)
			}
			for _, want := range []string{c.said, strings.Trim(c.instead, "[]")} {
				check.Contains(t, err.Error(), want, "it doesn't say …: %v", err)
			}
			if len(c.text) < 100 && !strings.Contains(err.Error(), "write") && !strings.Contains(err.Error(), "at most every") {
				t.Errorf("it doesn't say what to write: %v", err)
			}
			if c.instead == "" || c.instead[0] == '[' {
				return
			}
			must.Get(schedule.Parse(c.instead))(t)
		})
	}
}

// What is told to be written in place of a field is read in that place.
func TestWhatIsToldToBeWrittenIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		part := strings.Trim(c.instead, "[]")
		if part == c.instead {
			continue
		}
		words := strings.Fields(c.text)
		read := false
		for i := range words {
			changed := append([]string{}, words...)
			changed[i] = part
			_, err := schedule.Parse(strings.Join(changed, " "))
			read = read || err == nil
		}
		if !read {
			t.Errorf("%s: %s is refused in every place of it", c.text, part)
		}
	}
}

// The same of each range and step of cron's fields, from edge to edge, and of the days of `weekly`.
func TestWhatIsToldOfEachRangeIsRead(t *testing.T) {
	t.Parallel()
	told, unknown := regexp.MustCompile(`: write (\S+)$`), regexp.MustCompile(`is not a value|is not a day|write names|none of the known forms`)
	bounds := []string{"1", "2", "mon", "sat", "sun", "jan", "dec", "0", "5", "6", "7", "11", "12", "22", "23", "30", "31", "58", "59"}
	for _, form := range []string{"# * * * *", "0 # * * *", "0 0 # * *", "0 0 * # *", "0 0 * * #", "weekly # 01:00"} {
		for _, from := range bounds {
			for _, to := range append([]string{""}, bounds...) {
				for step := range 14 {
					text := from
					if to != "" {
						text += "-" + to
					}
					if step > 0 {
						text += "/" + strconv.Itoa(step)
					}
					_, err := schedule.Parse(strings.Replace(form, "#", text, 1))
					if err == nil || unknown.MatchString(err.Error()) {
						continue
					}
					found := told.FindStringSubmatch(err.Error())
					if found == nil {
						t.Errorf("%s: it doesn't say what to write: %v", text, err)
					} else if _, err := schedule.Parse(strings.Replace(form, "#", found[1], 1)); err != nil {
						t.Errorf("%s: what it tells to write is refused, too: %v", text, err)
					}
				}
			}
		}
	}
}

// A terminal shows errors, and a writer of the table may write what terminals obey.
func TestRefusalsAreOneHarmlessLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"daily \x1b[2J", "\x1b]0;x\a * * * *", "every 5\x00", "0 0 1 \x9b *", "@\x1b[2J", "5/\x1b[2J * * * *", "daily 0\n1:00", strings.Repeat("\x1b", 300)} {
		_, err := schedule.Parse(text)
		if err == nil {
			t.Fatalf("%q is read", text)
		}
		if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b }); i >= 0 {
			t.Errorf("%q: byte %d of the error is not for terminals: %q", text, i, err)
		}
	}
}
