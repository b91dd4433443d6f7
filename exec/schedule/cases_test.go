package schedule_test

import (
	"slices"
	"testing"
	"time"

	"jobd/exec/schedule"
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
				if got := time.Unix(moment, 0).In(zone).Format(planned); got != want {
					t.Fatalf("%s in %s: %s is planned, not %s", s, zone, got, want)
				}
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
