package schedule_test

import (
	"strings"
	"testing"
	"time"

	"jobd/exec/schedule"
)

func TestCanonicalFormsAndExplanations(t *testing.T) {
	t.Parallel()
	const fixed = "; a time that the clocks skip runs right after the change; a time that comes twice runs the first time"
	const follows = ", following the clock on the wall"
	for _, c := range []struct{ text, canonical, explained string }{
		{"every 90s", "every 90s", "every 90 seconds of elapsed time"},
		{"every 120s", "every 2m", "every 2 minutes of elapsed time"},
		{"every 60m", "every 1h", "every hour of elapsed time"},
		{"EVERY 24h", "every 1d", "every 24 hours of elapsed time"},
		{"every 7d", "every 7d", "every 7 times 24 hours of elapsed time"},
		{"hourly :05", "hourly :05", "each hour at minute 5" + follows},
		{"Daily 2:30", "daily 02:30", "at 02:30 each day" + fixed},
		{"weekly mon,tue,wed,fri 01:00", "weekly mon-wed,fri 01:00", "at 01:00 on Monday to Wednesday and Friday" + fixed},
		{"weekly sun,sat 01:00", "weekly sat,sun 01:00", "at 01:00 on Saturday and Sunday" + fixed},
		{"weekly sun-sat 01:00", "weekly mon-sun 01:00", "at 01:00 each day" + fixed},
		{"weekly SUN 01:00", "weekly sun 01:00", "at 01:00 on Sunday" + fixed},
		{"monthly 01 00:00", "monthly 1 00:00", "at 00:00 on day 1 of each month" + fixed},
		{"monthly 30 00:00", "monthly 30 00:00", "at 00:00 on day 30 of each month, or its last in shorter ones" + fixed},
		{"monthly 31 00:00", "monthly 31 00:00", "at 00:00 on the last day of each month" + fixed},
		{"monthly LAST 23:00", "monthly last 23:00", "at 23:00 on the last day of each month" + fixed},
		{"yearly 02-14 20:00", "yearly 02-14 20:00", "at 20:00 on day 14 of February" + fixed},
		{"yearly 02-29 20:00", "yearly 02-29 20:00", "at 20:00 on day 29 of February, or day 28 in years without it" + fixed},
		{"30  2 * *\t1-5", "30 2 * * 1-5", "at 02:30 on Monday to Friday" + fixed},
		{"* * * * *", "* * * * *", "every minute" + follows},
		{"*/20 * * * *", "*/20 * * * *", "each hour at minute 0, 20 and 40" + follows},
		{"* * * JAN,feb mon", "* * * jan,feb mon", "every minute on Monday in January and February" + follows},
		{"* 2 * * *", "* 2 * * *", "every minute of hour 2 each day" + fixed},
		{"*/15 9-17 * * *", "*/15 9-17 * * *", "at minute 0, 15, 30 and 45 of hour 9 to 17 each day" + fixed},
		{"0 6,18 1,15 * *", "0 6,18 1,15 * *", "at 06:00 and 18:00 on day 1 and 15 of each month" + fixed},
		{"0 0 29 2 mon", "0 0 29 2 mon", "at 00:00 on day 29 of February, and also on Monday in February" + fixed},
		{"0 0 * 8-12/6 *", "0 0 * 8-12/6 *", "at 00:00 each day of August" + fixed},
		{"@midnight", "@midnight", "at 00:00 each day" + fixed},
		{"@annually", "@annually", "at 00:00 on day 1 of January" + fixed},
		{"0 9 1 * mon", "0 9 1 * mon", "at 09:00 on day 1 of each month, and also on Monday" + fixed},
		{"0 9 */15 * mon", "0 9 */15 * mon", "at 09:00 on day 1, 16 and 31 of each month if it is Monday" + fixed},
		{"0 9 1-31 6 mon", "0 9 1-31 6 mon", "at 09:00 each day of June" + fixed},
		{"@Hourly", "@hourly", "each hour at minute 0" + follows},
		{"@yearly", "@yearly", "at 00:00 on day 1 of January" + fixed},
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

func TestWhatHappensAtAChangeOfClocks(t *testing.T) {
	t.Parallel()
	const forward, back, lost = "2026-03-01 00:00 +0000", "2026-09-01 00:00 +0000", "2011-12-01 00:00 +0000"
	for _, c := range []struct{ zone, after, text, want string }{
		{"Europe/Berlin", forward, "every 5m", "it counts elapsed time: the change makes no difference"},
		{"Europe/Berlin", forward, "daily 02:30", "02:30 is left out, and runs at 03:00, when the clocks have been put forward"},
		{"Europe/Berlin", forward, "daily 03:00", "none of its times is left out"},
		{"Europe/Berlin", forward, "weekly mon 02:30", "none of its times is left out"},
		{"Europe/Berlin", forward, "hourly :15", "02:15 is left out"},
		{"Europe/Berlin", forward, "*/30 * * * *", "02:00 and 02:30 are left out"},
		{"Europe/Berlin", forward, "*/5 2 * * *", "02:00, 02:05, 02:10 and 9 more are left out, and run once, at 03:00, when the clocks have been put forward"},
		{"Europe/Berlin", back, "daily 02:30", "02:30 runs in the first pass only"},
		{"Europe/Berlin", back, "daily 03:00", "none of its times is repeated"},
		{"Europe/Berlin", back, "0,30 2 * * *", "02:00 and 02:30 run in the first pass only"},
		{"Europe/Berlin", back, "hourly :15", "02:15 runs in both passes"},
		{"Europe/Berlin", back, "*/30 * * * *", "02:00 and 02:30 run in both passes"},
		{"Australia/Lord_Howe", back, "daily 02:15", "02:15 is left out, and runs at 02:30, when the clocks have been put forward"},
		{"Pacific/Apia", lost, "daily 12:00", "2011-12-30 12:00 is left out, and runs at 2011-12-31 00:00, when the clocks have been put forward"},
	} {
		zone := load(t, c.zone)
		change, ok := schedule.NextChange(parse(t, c.after), zone)
		if !ok {
			t.Fatalf("%s has no change after %s", c.zone, c.after)
		}
		if got := read(t, c.text).AtChange(change); got != c.want {
			t.Errorf("%s in %s: %q, not %q", c.text, c.zone, got, c.want)
		}
	}
}

// Every change that the clock shows is told, and nothing else: the tz database also has changes of
// names only, and package time ends a period with each year.
func TestChangesAreThoseThatTheClockShows(t *testing.T) {
	t.Parallel()
	db := zones(t)
	for _, zone := range db.distinct {
		after := fromYear
		for _, want := range db.changes[zone] {
			change, ok := schedule.NextChange(after, zone)
			if !ok || change.At != want {
				t.Fatalf("%s: after %d, the next change is %d (%v), not %d", zone, after, change.At, ok, want)
			}
			for moment, offset := range map[int64]int{want - 1: change.Before, want: change.After} {
				if _, real := time.Unix(moment, 0).In(zone).Zone(); real != offset {
					t.Fatalf("%s: at %d it is %d ahead of UTC, not %d", zone, moment, real, offset)
				}
			}
			after = want
		}
		if change, ok := schedule.NextChange(after, zone); ok && change.At < toYear {
			t.Fatalf("%s: a change at %d, which the clock doesn't show", zone, change.At)
		}
	}
	if change, ok := schedule.NextChange(0, nil); ok {
		t.Errorf("UTC changes at %d", change.At)
	}
}
