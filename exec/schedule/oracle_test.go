package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/exec/schedule"
	"jobd/store/storetest/must"
)

// everywhere are plans that meet changes of clocks in all ways: at each change of each zone.
var everywhere = []*plan{
	{text: "30 2 * * *", minutes: []int{30}, hours: []int{2}},
	{text: "*/5 2 * * *", minutes: []int{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55}, hours: []int{2}},
	{text: "*/45 */2 * * *", minutes: []int{0, 45}, hours: []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}},
	{text: "10 0-23 * * *", minutes: []int{10}, hours: everyHour},
	{text: "*/20 * * * *", minutes: []int{0, 20, 40}, hours: everyHour, follows: true},
	{text: "hourly :59", minutes: []int{59}, hours: everyHour, follows: true},
	{text: "*/30 * * * sat", minutes: []int{0, 30}, hours: everyHour, weekday: []int{6}, follows: true},
	{text: "daily 00:00", minutes: []int{0}, hours: []int{0}},
	{text: "weekly sat,sun 23:30", minutes: []int{30}, hours: []int{23}, weekday: []int{0, 6}},
	{text: "monthly last 00:01", minutes: []int{1}, hours: []int{0}, days: []int{31}, last: true},
}

func TestEveryChangeOfClocksInEveryZone(t *testing.T) {
	t.Parallel()
	db := zones(t)
	changes := 0
	for _, p := range everywhere {
		p.months = everyMonth
		if p.days == nil {
			p.days = everyDay
		}
		if p.weekday == nil {
			p.weekday = everyWeekday
		}
	}
	for _, zone := range db.distinct {
		changes += len(db.changes[zone])
		t.Run(zone.String(), func(t *testing.T) {
			t.Parallel()
			for i, change := range db.changes[zone] {
				for j, p := range everywhere {
					if !long() && (i+j)%7 != 0 {
						continue // each plan at every seventh change, so at both kinds
					}
					s := read(t, p.text)
					compare(t, s, p, zone, change-3*3600-1, change+3*3600)
				}
			}
		})
	}
	if changes < 5000 {
		t.Errorf("%d changes of clocks in %d zones: the database is not read", changes, len(db.distinct))
	}
	t.Logf("%d zones, %d of them different, %d changes of clocks", len(db.names), len(db.distinct), changes)
}

// fataler is what a test and a property have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// compare holds what is planned after a moment, up to another, against the oracle.
func compare(t fataler, s *schedule.Schedule, p *plan, zone *time.Location, after, until int64) {
	t.Helper()
	want := p.walk(zone, after, until)
	var got []int64
	for moment := s.Next(after, zone); moment != 0 && moment <= until; moment = s.Next(moment, zone) {
		if got = append(got, moment); len(got) > len(want)+1 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s in %s after %s: planned is\n%s, and the wall has\n%s", s, zone, written(zone, after), written(zone, got...), written(zone, want...))
	}
	// From in between, too: in the second pass of a repeated hour, say.
	for moment := after; moment < until; moment += 17*60 + 31 {
		for len(want) > 0 && want[0] <= moment {
			want = want[1:]
		}
		if len(want) == 0 {
			break
		}
		if next := s.Next(moment, zone); next != want[0] {
			t.Fatalf("%s in %s after %s: planned is %s, and the wall has %s", s, zone, written(zone, moment), written(zone, next), written(zone, want[0]))
		}
	}
}

func written(zone *time.Location, moments ...int64) (texts []string) {
	for _, moment := range moments {
		texts = append(texts, time.Unix(moment, 0).In(zone).Format(planned))
	}
	return texts
}

// Any plan, in any zone, from any moment on, most of them near a change of clocks. Its canonical form is the
// same schedule.
func TestPlansAreWhatTheWallShows(t *testing.T) {
	t.Parallel()
	db := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		zone := rapid.SampledFrom(db.distinct).Draw(t, "zone")
		s, err := schedule.Parse(p.text)
		if err != nil {
			t.Skip(err) // a date that never comes
		}
		canonical, err := schedule.Parse(s.String())
		if err != nil || canonical.String() != s.String() || canonical.Explain(true) != s.Explain(true) {
			t.Fatalf("%s is %s at first, and %s then: %v", p.text, s, canonical, err)
		}
		after := rapid.Int64Range(fromYear, toYear).Draw(t, "after")
		if changes := db.changes[zone]; len(changes) > 0 && rapid.IntRange(0, 3).Draw(t, "anywhere") > 0 {
			after = rapid.SampledFrom(changes).Draw(t, "change") + rapid.Int64Range(-30*3600, 3*3600).Draw(t, "off the change")
		}
		compare(t, s, p, zone, after, after+36*3600)
		next := s.Next(after, zone)
		if next == 0 && after > beyond-rarest {
			return // the next one is not before the year 2100
		}
		if next == 0 {
			t.Fatalf("%s in %s after %d: none is planned", s, zone, after)
		}
		// It is one, and none was before it, as far back as it can be looked at in the time.
		compare(t, s, p, zone, max(after, next-8*day), next)
		for range 50 {
			following := s.Next(next, zone)
			if following == 0 {
				break
			}
			if following != canonical.Next(next, zone) {
				t.Fatalf("%s became %s, which is planned for %d", p.text, canonical, canonical.Next(next, zone))
			}
			if following <= next {
				t.Fatalf("%s in %s: after %d, %d is planned", s, zone, next, following)
			}
			// Nor does what is planned depend on from where it is looked for.
			from := rapid.Int64Range(next, following-1).Draw(t, "from")
			if again := s.Next(from, zone); again != following {
				t.Fatalf("%s in %s: after %d, %d is planned, and after %d, %d", s, zone, next, following, from, again)
			}
			if now := rapid.Int64Range(next-day, following-1).Draw(t, "now"); s.Following(next, now, zone) != following {
				t.Fatalf("%s in %s: planned for %d and ended at %d, %d follows, not %d", s, zone, next, now, s.Following(next, now, zone), following)
			}
			next = following
		}
	})
}

const (
	day    = 24 * 3600
	beyond = 4102444800    // nothing is planned from the year 2100 on
	rarest = 9 * 366 * day // longer than any plan is not due for: 29 February, with 2100 between
)

func TestIntervalsAreElapsedTime(t *testing.T) {
	t.Parallel()
	db := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, 500).Draw(t, "length")
		unit := rapid.SampledFrom([]string{"s", "m", "h", "d"}).Draw(t, "unit")
		seconds := length * map[string]int64{"s": 1, "m": 60, "h": 3600, "d": day}[unit]
		s := must.Get(schedule.Parse(fmt.Sprintf("every %d%s", length, unit)))(t)
		if every, ok := s.Every(); !ok || every != seconds {
			t.Fatalf("%s is %d seconds", s, every)
		}
		zone := rapid.SampledFrom(db.distinct).Draw(t, "zone")
		first := rapid.Int64Range(fromYear, toYear).Draw(t, "planned")
		if changes := db.changes[zone]; len(changes) > 0 {
			first = rapid.SampledFrom(changes).Draw(t, "change") - rapid.Int64Range(0, 2*seconds).Draw(t, "before the change")
		}
		first = min(first, beyond-2*seconds)
		must.Equal(t, s.Next(first, zone), first+seconds, "%s: after %d, … is planned", s, first)
		now := min(first+rapid.Int64Range(-day, 100*seconds).Draw(t, "now"), beyond-2*seconds)
		following := s.Following(first, now, zone)
		if off := following - first; off <= 0 || off%seconds != 0 {
			t.Fatalf("%s: planned for %d, then for %d", s, first, following)
		}
		if latest := max(now, first); following <= now || following-seconds > latest {
			t.Fatalf("%s: planned for %d and ended at %d, then for %d", s, first, now, following)
		}
	})
}

// No text, moment or zone leads to a panic or an endless search, and what is planned comes after the
// moment.
func FuzzSchedule(f *testing.F) {
	for _, p := range everywhere {
		f.Add(p.text, int64(1774746000), "Europe/Berlin")
	}
	for _, c := range refusals {
		f.Add(c.text, int64(-1), "UTC")
	}
	for _, text := range []string{"every 1s", "monthly 31 00:00", "yearly 02-29 20:00", "0 0 29 2 1", "0 0 29 2 */6", "* * 29 2 *", "@yearly"} {
		for _, after := range []int64{-1 << 63, 0, 951782400, 1356998399, 4102444799, 4102444800, 1<<63 - 1} {
			f.Add(text, after, "America/Santiago")
		}
	}
	f.Fuzz(func(t *testing.T, text string, after int64, name string) {
		zone, err := schedule.Zone(name)
		if err != nil {
			zone = nil
		}
		s, err := schedule.Parse(text)
		if err != nil {
			return
		}
		again, err := schedule.Parse(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is %q, and that is %v, %v", text, s, again, err)
		}
		if s.Explain(true) == "" {
			t.Fatalf("%q is not explained", s)
		}
		next := s.Next(after, zone)
		if next != again.Next(after, zone) || next != 0 && (next <= after || next >= beyond) {
			t.Fatalf("%s: after %d, %d is planned", s, after, next)
		}
		if next > 0 && s.Next(next-1, zone) != next {
			if _, every := s.Every(); !every {
				t.Fatalf("%s: after %d, %d is planned, and just before it %d", s, after, next, s.Next(next-1, zone))
			}
		}
		if following := s.Following(next, after, zone); following != 0 && (following <= next || following <= after) {
			t.Fatalf("%s: planned for %d and ended at %d, then for %d", s, next, after, following)
		}
	})
}

// Zones that are not of the tz database have no sense, and do no harm.
func TestZonesWithoutSenseDoNoHarm(t *testing.T) {
	t.Parallel()
	for _, offset := range []int{-1 << 31, -40 * 3600, 40 * 3600, 1<<31 - 1} {
		zone := time.FixedZone("nowhere", offset)
		for _, text := range []string{"daily 02:30", "hourly :15", "every 1h", "yearly 02-29 20:00"} {
			s := read(t, text)
			for _, after := range []int64{-1 << 63, 0, 1774746000, 4102444799, 1<<63 - 1} {
				if next := s.Next(after, zone); next != 0 && next <= after {
					t.Errorf("%s: after %d, %d is planned", s, after, next)
				}
			}
		}
	}
}
