package schedule_test

import (
	"strings"
	"testing"
)

func TestCanonicalFormsAndExplanations(t *testing.T) {
	t.Parallel()
	const fixed = "; a time that the clocks skip runs right after the change; a time that comes twice runs the first time"
	const follows = ", following the clock on the wall"
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
		if s.String() != c.canonical {
			t.Errorf("%q is %q, not %q", c.text, s, c.canonical)
		}
		if !strings.HasPrefix(s.Explain(true), c.explained) {
			t.Errorf("%s: %q, not %q", s, s.Explain(true), c.explained)
		}
		if got := s.Explain(false); strings.Contains(got, "clocks skip") || strings.Contains(got, "the wall") {
			t.Errorf("%s, where clocks are never changed: %q", s, got)
		}
	}
}
