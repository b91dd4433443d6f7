package schedule_test

import (
	"testing"
	"time"

	"jobd/exec/schedule"
)

// planned is how the cases write a planned time: with the distance from UTC, which tells the passes
// of a repeated hour apart.
const planned = "2006-01-02 15:04:05 -0700"

// changes are what schedules do at changes of clocks, and beside them, written by hand: the first
// planned times after a moment, as the clock on the wall shows them.
var changes = []struct {
	name, zone, text, after string
	want                    []string
}{
	{"Berlin, put forward over a fixed time", "Europe/Berlin", "daily 02:30", "2026-03-27 12:00:00 +0100", []string{
		"2026-03-28 02:30:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200",
	}},
	{"Berlin, put back over a fixed time", "Europe/Berlin", "daily 02:30", "2026-10-24 12:00:00 +0200", []string{
		"2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100",
	}},
	{"Berlin, put forward, by the wall", "Europe/Berlin", "hourly :15", "2026-03-29 00:30:00 +0100", []string{
		"2026-03-29 01:15:00 +0100", "2026-03-29 03:15:00 +0200", "2026-03-29 04:15:00 +0200",
	}},
	{"Berlin, put back, by the wall", "Europe/Berlin", "hourly :15", "2026-10-25 01:30:00 +0200", []string{
		"2026-10-25 02:15:00 +0200", "2026-10-25 02:15:00 +0100", "2026-10-25 03:15:00 +0100",
	}},
}

func TestPlannedTimes(t *testing.T) {
	t.Parallel()
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, zone := read(t, c.text), load(t, c.zone)
			moment := parse(t, c.after)
			for _, want := range c.want {
				moment = s.Next(moment, zone)
				if got := time.Unix(moment, 0).In(zone).Format(planned); got != want {
					t.Fatalf("%s in %s: %s is planned, not %s", s, zone, got, want)
				}
			}
		})
	}
}

func read(t *testing.T, text string) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := schedule.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func parse(t *testing.T, moment string) int64 {
	t.Helper()
	at, err := time.Parse(planned, moment)
	if err != nil {
		t.Fatal(err)
	}
	return at.Unix()
}
