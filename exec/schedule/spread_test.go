package schedule_test

import (
	"testing"
	"time"

	"jobd/exec/schedule"
	"jobd/store/storetest/must"
)

// A thousand rows of one schedule start all over the spread, each always as late, and each runs once for
// each time that the schedule names, whatever the spread was when its run was planned.
func TestSpread(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).Unix()
	for text, test := range map[string]struct{ every, within int64 }{
		"daily 00:00": {24 * 3600, 600}, "* * * * *": {60, 60}, "*/5 * * * *": {300, 300},
	} {
		plain := must.Get(schedule.Parse(text))(t)
		seen := map[int64]bool{}
		for id := range int64(1000) {
			s := plain.Spread(id, 10*time.Minute)
			at := s.Next(midnight-1, nil)
			if at > midnight+test.within {
				t.Fatalf("%s, job %d: first at %d", text, id, at-midnight)
			}
			behind := s.Behind(at, nil)
			seen[behind] = true
			if behind < 0 || behind >= test.within || (at-behind-midnight)%test.every != 0 {
				t.Errorf("%s, job %d is %d behind at %d", text, id, behind, at-midnight)
			}
			for n, planned := range []int64{at, at + test.every, at + 2*test.every} {
				if next := s.Following(planned, planned+1, nil); next != planned+test.every || s.Behind(next, nil) != behind {
					t.Errorf("%s, job %d: run %d is followed by one %d s later", text, id, n, next-planned)
				}
			}
			if next := s.Following(at-behind, at-behind+1, nil); next != at+test.every {
				t.Errorf("%s, job %d: the run that was planned without a spread is repeated at %d", text, id, next-midnight)
			}
			if next, want := plain.Following(at, at, nil), at-behind+test.every; next != want {
				t.Errorf("%s, job %d: without the spread by now it is followed by %d, want %d", text, id, next-midnight, want-midnight)
			}
		}
		if len(seen) < int(test.within)/2 {
			t.Errorf("%s: only %d places", text, len(seen))
		}
	}
}

// Intervals count from each row's own first run, and are not spread; no spread changes nothing.
func TestSpreadOfIntervals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"every 90s", "hourly :15"} {
		plain := must.Get(schedule.Parse(text))(t)
		most := 10 * time.Minute
		if text != "every 90s" {
			most = 0
		}
		s := plain.Spread(7, most)
		if s.Next(1000, nil) != plain.Next(1000, nil) || s.Following(1000, 5000, nil) != plain.Following(1000, 5000, nil) || s.Behind(1090, nil) != 0 {
			t.Errorf("%s is spread", text)
		}
	}
}
