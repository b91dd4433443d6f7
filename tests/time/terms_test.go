package time

import (
	"testing"

	"jobd/journal"
	"jobd/tests/harness"
)

// A job that fails is tried again, later each time, until it has used up its attempts. What says that
// its data are wrong is not, nor what was cancelled or ended by somebody's signal.
func TestAttempts(t *testing.T) {
	t.Parallel()
	s := newSite(t, `case $1 in
1) exit 1;;
2) [ $JOBD_ATTEMPT = 3 ] || exit 7;;
3) exit 65;;
4) kill -SEGV $$;;
5) exit 1;;
6) exit 1;;
esac`)
	terms := harness.Terms("a", harness.Settings{"attempts": "4", "backoff": "1s..2s"})
	settings := s.worker("w1", map[string]int{"a": 8}, terms)
	at := s.now()
	s.insert(timed{id: 1, status: "waiting"}, timed{id: 2, runAt: at}, timed{id: 3, runAt: at}, timed{id: 4, status: "waiting", maxAttempts: 2},
		timed{id: 5, runAt: at, schedule: "every 1h"}, timed{id: 6, runAt: at, schedule: "every 1s", attempts: 0, maxAttempts: 3})
	settings.StartWorker(t)
	wants := []struct {
		id       int64
		result   string
		attempts int64
		code     int
	}{{1, "fail", 4, 1}, {2, "ok", 3, 0}, {3, "fail", 1, 65}, {4, "fail", 2, -1}}
	for _, want := range wants {
		row := s.awaitStatus(want.id, "done")
		starts := s.oracle.starts(t, want.id)
		if row.result != want.result || row.attempts != want.attempts || row.code != want.code && want.code >= 0 || int64(len(starts)) != want.attempts {
			t.Errorf("%s, started %s: want %+v", row, starts, want)
		}
		for i, begun := range starts {
			most := 4
			if want.id == 4 {
				most = 2
			}
			if begun.attempt != i+1 || begun.most != most || begun.recovered != 0 || begun.planned != starts[0].planned && starts[0].planned != 0 {
				t.Errorf("start %d is %s", i+1, begun)
			}
		}
	}
	// Four attempts, then the next planned time; and a retry that would come no sooner than the next planned time is none.
	row := s.await(5, "delayed behind four attempts", func(r timed) bool { return r.status == "delayed" && len(s.oracle.starts(t, 5)) == 4 && r.attempts == 0 })
	if row.result != "fail" || row.plannedAt != at+3600 || row.runAt != row.plannedAt {
		t.Errorf("%s: want the next run an hour after %d", row, at)
	}
	for _, begun := range s.oracle.await(t, 6, 3) {
		if begun.attempt != 1 {
			t.Errorf("%s overtakes the next planned time", begun)
		}
	}
	expectBackoff(t, events(t, settings, journal.KindDone))
	verifyJournal(t, settings)
}

// expectBackoff checks how long failed jobs wait: one second, then two, give or take a fifth, and never
// beyond two. Whole seconds are the unit.
func expectBackoff(t testing.TB, ends []journal.Event) {
	t.Helper()
	attempts, checked := map[int64]int{}, 0
	for _, e := range ends {
		done := e.Payload.(journal.Done)
		attempts[e.Job]++
		if done.Again == nil || done.Again.Why != journal.AgainRetry {
			continue
		}
		checked++
		wait, most := done.Again.RunAt-e.Time.Unix(), int64(min(attempts[e.Job], 2))
		if wait < most-1 || wait > most+1 {
			t.Errorf("job %d waits %d s behind attempt %d", e.Job, wait, attempts[e.Job])
		}
	}
	if checked < 6 {
		t.Errorf("only %d retries were seen", checked)
	}
}
