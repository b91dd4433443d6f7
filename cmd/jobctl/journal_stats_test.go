package main

import (
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store/storetest/must"
)

// longWaits makes a journal whose first segment retention has removed. Job 1 was claimed and started there, and job 2 claimed;
// both end later. Job 3's row was created 601 s before its claim, job 4's within the same second, job 5 is manual. The row of
// job 3 is lost after its job's end.
func longWaits(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	now := begin
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{
		Dir: dir, SegmentAge: time.Second, Retention: 10 * time.Second, Now: func() time.Time { return now },
	}))(t)
	one := func(second int, job int64, payload journal.Payload) {
		now = begin.Add(time.Duration(second) * time.Second)
		appendAll(t, j, journal.Draft{Job: job, Payload: payload})
	}
	created := func(before time.Duration) int64 { return now.Add(-before).Unix() }
	ok := journal.Done{Result: "ok"}
	one(1, 1, journal.Accepted{Target: "early", Token: "@1", Created: created(time.Hour)})
	one(1, 2, journal.Accepted{Target: "early", Token: "@2", Created: created(time.Hour)})
	one(1, 1, journal.Running{Attempt: 1})
	one(3, 0, journal.Opened{Name: "node-1"})
	one(5, 1, ok)
	one(6, 2, journal.Running{Attempt: 1})
	one(8, 2, ok)
	one(9, 3, journal.Accepted{Target: "waited", Token: "@3", Created: created(600 * time.Second)}) // the clock still says 8
	one(9, 3, journal.Running{Attempt: 1})
	one(10, 3, ok)
	one(10, 4, journal.Accepted{Target: "at once", Token: "@4", Created: created(0)})
	one(10, 4, journal.Running{Attempt: 1})
	one(11, 4, ok)
	one(11, 5, journal.Accepted{Target: "by hand", Token: "@5", Manual: true, Created: created(time.Hour)})
	one(11, 5, journal.Running{Attempt: 1})
	one(12, 5, ok)
	one(12, 3, journal.Conflict{Wanted: journal.RowDone, Token: "@3"})
	j.SetPosition(17)
	must.Do(t, j.Maintain(t.Context()))
	must.Do(t, j.Close())
	return dir
}

// What was claimed before the time that is looked at is counted under its target, a row that is gone under none; a wait
// counts from the row's creation.
func TestStatisticsOfWhatTheClaimSays(t *testing.T) {
	t.Parallel()
	dir := longWaits(t)
	for name, test := range map[string]struct {
		args []string
		want []string // claimed, starts, done, failed, released, conflicts, wait P50
	}{
		"all that is kept": {nil, []string{
			"? 0 0 0 0 0 1 -", "at once 1 1 1 0 0 0 0s", "by hand 1 1 1 0 0 0 0s", "early 0 1 2 0 0 0 -", "waited 1 1 1 0 0 0 10m0s",
		}},
		"from a time on": {[]string{"--since", "2026-11-20T10:00:12"}, []string{
			"? 0 0 0 0 0 1 -", "by hand 0 0 1 0 0 0 -",
		}},
		"claimed before": {[]string{"--since", "2026-11-20T10:00:10", "--until", "2026-11-20T10:00:11"}, []string{
			"at once 1 1 0 0 0 0 0s", "waited 0 0 1 0 0 0 -",
		}},
		"by worker": {[]string{"--by", "worker"}, []string{"node-1 3 4 5 0 0 1 1µs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := jobctl{}.run(t, append([]string{"journal", "stats", "--journal", dir}, test.args...)...)
			counts, times, _ := strings.Cut(got.out, "\n\n")
			waits := strings.Split(times, "\n")
			var rows []string
			for i, row := range strings.Split(counts, "\n") {
				fields := strings.Fields(waits[i])
				rows = append(rows, strings.Join(append(strings.Fields(row), fields[len(fields)-8]), " "))
			}
			if got.code != 0 || strings.Join(rows[1:], "\n") != strings.Join(test.want, "\n") {
				t.Errorf("%+v\nrows %q\nwant %q", got, rows, test.want)
			}
		})
	}
}

// A wait counts from when the row could run: where it was set back, from then; where nobody knows, it
// is none, and no wait since 1970.
func TestStatisticsOfWaitsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	now := begin
	dir := t.TempDir()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, Now: func() time.Time { return now }}))(t)
	one := func(second int, job int64, payload journal.Payload) {
		now = begin.Add(time.Duration(second) * time.Second)
		appendAll(t, j, journal.Draft{Job: job, Payload: payload})
	}
	started := func(second int, job int64, claim journal.Accepted) {
		one(second, job, claim)
		one(second, job, journal.Running{Attempt: 1})
	}
	one(1, 0, journal.Opened{Name: "node-1"})
	started(2, 1, journal.Accepted{Target: "untold", Token: "@1"})
	started(3, 2, journal.Accepted{Target: "in 1970", Token: "@2", Created: 1})
	started(4, 3, journal.Accepted{Target: "not planned", Token: "@3", From: journal.RowDelayed, Plan: &journal.Plan{Schedule: "every 1m"}})
	started(5, 4, journal.Accepted{Target: "again", Token: "@4", Created: begin.Add(-90 * 24 * time.Hour).Unix()})
	one(6, 4, journal.Done{Result: "fail"})
	one(10, 4, journal.Retried{Target: "again", From: journal.RowDone, To: journal.RowWaiting, By: "x"})
	started(20, 4, journal.Accepted{Target: "again", Token: "@5", Created: begin.Add(-90 * 24 * time.Hour).Unix()})
	must.Do(t, j.Close())
	got := jobctl{}.run(t, "journal", "stats", "--journal", dir, "--output", "json")
	for target, want := range map[string]string{"untold": `{"p50":0,`, "in 1970": "null", "not planned": "null", "again": `{"p50":10`} {
		line := ""
		for l := range strings.Lines(got.out) {
			if strings.Contains(l, `"group":"`+target+`"`) {
				line = l
			}
		}
		if !strings.Contains(line, `"waited":`+want) {
			t.Errorf("%s: %s", target, line)
		}
	}
	if text := (jobctl{}).run(t, "journal", "stats", "--journal", dir, "--since", "2026-11-20T10:00:10").out; strings.Contains(text, "d0h") || !strings.Contains(text, "10s") {
		t.Errorf("%s", text)
	}
}
