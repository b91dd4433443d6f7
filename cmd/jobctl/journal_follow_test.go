package main

import (
	"context"
	"io"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
)

// Following goes on where a segment ends, is sealed and even removed meanwhile.
func TestJournalLogFollowsAcrossSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seconds := 0
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, SegmentAge: 2 * time.Second, Retention: time.Nanosecond, Now: func() time.Time {
		seconds++
		return begin.Add(time.Duration(seconds) * time.Second)
	}}))(t)
	defer j.Close()
	appendAll(t, j, journal.Draft{Job: 1, Payload: journal.Ignored{Reason: "reason 0"}})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"journal", "log", "--follow", "--kind", "ignored", "--journal", dir}, surroundings{
			out: writer, err: t.Output(), now: time.Now, location: time.UTC,
		})
		writer.Close()
	}()
	expectLine(t, reader, "reason 0")
	for n := 1; n <= 9; n++ {
		reason := "reason " + string(rune('0'+n))
		appendAll(t, j, journal.Draft{Job: 1, Payload: journal.Ignored{Reason: reason}})
		expectLine(t, reader, reason)
		j.SetPosition(1 << 40) // all that was appended
		must.Do(t, j.Maintain(t.Context()))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
	r := must.Get(replay.Open(dir))(t)
	if first, err := r.First(t.Context()); err != nil || first == 1 {
		t.Errorf("the history begins with event %d, %v: nothing was removed, so nothing was shown", first, err)
	}
}
