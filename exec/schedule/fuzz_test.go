package schedule_test

import (
	"testing"
	"time"

	"jobd/exec/schedule"
	"jobd/store/storetest/must"
)

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

func BenchmarkNext(b *testing.B) {
	zone := must.Get(schedule.Zone("Europe/Berlin"))(b)
	for _, text := range []string{"* * * * *", "30 2 * * 1-5", "monthly last 23:00", "0 0 29 2 */6", "* * 29 2 */6", "every 15m"} {
		b.Run(text, func(b *testing.B) {
			s := must.Get(schedule.Parse(text))(b)
			for b.Loop() {
				s.Next(1774746000, zone)
			}
		})
	}
}
