package main

import (
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store/storetest/must"
)

// setBack makes a journal of a clock that was set back: all its events bear one time. Job 1 ran for 3 s, as measured; of job 2
// nothing was measured; the end of job 3, an hour later, nobody saw; job 4 is of an older version, and ran for 2 s.
func setBack(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	now := begin.Add(time.Second)
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: dir, Now: func() time.Time { return now }}))(t)
	zero := 0
	life := func(job int64, target string, takes time.Duration, done journal.Done) {
		appendAll(
			t, j,
			journal.Draft{Job: job, Payload: journal.Accepted{Target: target, Token: "@token"}},
			journal.Draft{Job: job, Payload: journal.Running{Attempt: 1}},
		)
		now = now.Add(takes)
		appendAll(t, j, journal.Draft{Job: job, Payload: done})
	}
	life(1, "measured", -time.Hour, journal.Done{Result: "ok", Code: &zero, Elapsed: 3_000_000})
	life(2, "older", 0, journal.Done{Result: "ok", Code: &zero})
	now = begin.Add(time.Second)
	life(3, "lost", time.Hour, journal.Done{Result: "fail", Reason: "outcome unknown: the worker and its runner were killed"})
	life(4, "plain", 2*time.Second, journal.Done{Result: "ok", Code: &zero})
	must.Do(t, j.Close())
	return dir
}

// How long a job ran is shown as it was measured; what is not known is shown as not known, never as 0.
func TestHowLongJobsRan(t *testing.T) {
	t.Parallel()
	dir := setBack(t)
	for job, want := range map[string]string{
		"1": "\nwaited  not known\nran     3s\nin all  not known\n",
		"2": "\nran     not known\nin all  not known\n",
		"3": "\nran     not known\nin all  1h0m0s\n",
		"4": "\nran     2s\nin all  2s\n",
	} {
		if got := (jobctl{}).run(t, "journal", "show", job, "--journal", dir); got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("show %s: exit code %d, %s, want%s", job, got.code, got.out, want)
		}
	}
	if got := (jobctl{}).run(t, "journal", "log", "--job=1", "-n=1", "--journal", dir); !strings.HasSuffix(got.out, "result=ok code=0 stdout=0 stderr=0 elapsed=3s\n") {
		t.Errorf("log: %s", got.out)
	}
	for _, format := range []string{"jsonl", "csv"} {
		got := jobctl{}.run(t, "journal", "export", "--format", format, "--journal", dir)
		if text := strings.ReplaceAll(got.out, `""`, `"`); strings.Count(text, `"elapsed":3000000`) != 1 || strings.Contains(text, `"elapsed":0`) {
			t.Errorf("export as %s:\n%s", format, got.out)
		}
	}
}

func TestStatisticsOfWhatIsKnown(t *testing.T) {
	t.Parallel()
	dir := setBack(t)
	got := jobctl{}.run(t, "journal", "stats", "--journal", dir)
	want := map[string]string{"measured": "3s 3s 3s 3s", "older": "- - - -", "lost": "- - - -", "plain": "2s 2s 2s 2s"}
	_, times, _ := strings.Cut(got.out, "\n\n")
	for row := range strings.Lines(times) {
		fields := strings.Fields(row)
		if ran, is := want[fields[0]]; is && strings.Join(fields[len(fields)-4:], " ") != ran {
			t.Errorf("%swant %s at its end", row, ran)
		}
		delete(want, fields[0])
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	asJSON := jobctl{}.run(t, "journal", "stats", "--journal", dir, "--output=json")
	for row := range strings.Lines(asJSON.out) {
		older := strings.Contains(row, `"older"`) || strings.Contains(row, `"lost"`)
		if older != strings.Contains(row, `"ran":null`) {
			t.Errorf("as JSON: %s", row)
		}
	}
}
