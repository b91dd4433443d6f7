package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store/storetest/must"
)

// shortened makes a journal of nine events, job n at second n, of which retention has left those from event 6 on.
func shortened(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	seconds := 0
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{
		Dir: dir, SegmentAge: time.Second, Retention: 3 * time.Second,
		Now: func() time.Time { return begin.Add(time.Duration(seconds) * time.Second) },
	}))(t)
	for n := range 9 {
		seconds++
		appendAll(t, j, journal.Draft{Job: int64(n + 1), Payload: journal.Ignored{Reason: fmt.Sprint("reason ", n+1)}})
	}
	j.SetPosition(9)
	must.Do(t, j.Maintain(t.Context()))
	must.Do(t, j.Close())
	return dir
}

// Who asks for what retention has removed is told what is kept; who asks for less, or for no time, is not bothered.
func TestJournalTellsWhatRetentionHasRemoved(t *testing.T) {
	t.Parallel()
	dir := shortened(t)
	const removed = "the history up to 2026-11-20T10:00:06.000000Z was removed by retention; it is kept from event 7 on"
	for args, want := range map[string]struct {
		code int
		says bool
		out  string // in what is printed; "": nothing is
	}{
		"log --since 2026-11-20T10:00:03": {0, true, "reason 7"},
		"log --since 2026-11-20T10:00:07": {0, false, "reason 7"},
		"log":                             {0, false, "reason 7"},
		"log --since 2026-11-20T09:00:00 --until 2026-11-20T10:00:05": {1, true, ""},
		"export --since 2026-11-20":                                   {0, true, "reason 7"},
		"stats --since 2026-11-20":                                    {0, true, "TARGET"},
		"state --at 2026-11-20T10:00:03":                              {1, true, ""},
		"state --at 2026-11-20T10:00:08":                              {0, false, "ignored"},
		"show 2":                                                      {4, true, ""},
		"show 8":                                                      {0, false, "reason 8"},
	} {
		got := jobctl{}.run(t, append(append([]string{"journal"}, strings.Fields(args)...), "--journal", dir)...)
		if got.code != want.code || strings.Contains(got.err, removed) != want.says || !strings.Contains(got.out, want.out) || want.out == "" && got.out != "" {
			t.Errorf("journal %s: %+v, want %+v", args, got, want)
		}
	}
}
