package main

import (
	"context"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

// A row that recurs has ever more events: only the newest are asked for.
const (
	// usualTold is how many runs of a job are shown where nobody says otherwise.
	usualTold = 10
	// eventsOfRun is how many events are asked for, for a run: most have four, and one that is given
	// back, signalled or planned anew some more.
	eventsOfRun = 8
)

// readStory reads what the journals know of the newest runs of a job, so many at most (0: all).
func (s *sheet) readStory(ctx context.Context, j *journals, runs int) {
	most := runs * eventsOfRun
	for event, err := range j.events(ctx, history.Query{Job: int64(s.job.id), Output: true, Last: most}) {
		if err != nil {
			j.failed = append(j.failed, err)
			break
		}
		s.events = append(s.events, event)
	}
	if runs == 0 {
		return
	}
	s.earlier = len(s.events) >= most
	if begin := beginOfRuns(s.events, runs, s.earlier); begin > 0 {
		s.earlier, s.events = true, s.events[begin:]
	}
}

// beginOfRuns is the place of the first event of the newest runs, so many at most. Where there are
// others before the events, the first run that is whole begins with a claim.
func beginOfRuns(events []from[journal.Event], runs int, before bool) (begin int) {
	found := 0
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].item.Kind() != journal.KindAccepted {
			continue
		}
		if found++; found > runs {
			return begin
		}
		begin = i
	}
	if !before {
		return 0
	}
	return begin
}
