package torture

import (
	"os/exec"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/tests/harness"
)

// jobctl asks a daemon, and gives what is written.
func jobctl(t testing.TB, d *harness.Daemon, args ...string) (string, error) {
	t.Helper()
	host, port, _ := strings.Cut(d.Addr, ":")
	args = append([]string{"--host", host, "--port", port, "--config", "/dev/null"}, args...)
	output, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), args...).CombinedOutput()
	return string(output), err
}

func mustJobctl(t testing.TB, d *harness.Daemon, args ...string) string {
	t.Helper()
	output, err := jobctl(t, d, args...)
	if err != nil {
		t.Errorf("jobctl %q: %v: %s", args, err, output)
	}
	return output
}

// A signal that kills ends the run without another attempt, and the schedule goes on; so does a cancel.
// With --schedule it ends the row, whether that runs or not. A schedule is paused and continued.
func TestSignalsAndCancels(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Gate)
	settings := s.worker("w1", map[string]int{"a": 8}, harness.Terms("a", harness.Settings{"attempts": "4", "backoff": "1s"}))
	at := s.now()
	s.insert(timed{id: 1, runAt: at, schedule: "every 1h"}, timed{id: 2, runAt: at}, timed{id: 3, runAt: at, schedule: "every 1h"},
		timed{id: 4, runAt: at + 3600, schedule: "every 1h", uniqueKey: "four"}, timed{id: 5, runAt: at + 3600})
	worker := settings.StartWorker(t)
	for id := int64(1); id <= 3; id++ {
		s.oracle.AwaitStarts(t, 1, id)
		s.awaitStatus(id, "running")
	}
	if why := mustJobctl(t, worker, "why", "4", "5"); !strings.Contains(why, "job 4 recurs every 1h") || !strings.Contains(why, "job 5 is delayed until ") {
		t.Errorf("rows 4 and 5 are delayed, for different reasons:\n%s", why)
	}
	mustJobctl(t, worker, "send-signal", "KILL", "1")
	mustJobctl(t, worker, "send-signal", "TERM", "2")
	row := s.await(1, "delayed", func(r timed) bool { return r.status == "delayed" })
	if row.plannedAt != at+3600 || row.result != "fail" || row.attempts != 0 {
		t.Errorf("%s: want the next run an hour after %d", row, at)
	}
	if row = s.awaitStatus(2, "done"); row.result != "fail" || row.attempts != 1 {
		t.Errorf("%s: it was ended by a signal", row)
	}
	if got, err := jobctl(t, worker, "cancel", "3", "4"); err == nil || !strings.Contains(got, "; next run ") || !strings.Contains(got, "job 4: it recurs") {
		t.Errorf("cancel says %v: %s", err, got)
	}
	row = s.await(3, "delayed", func(r timed) bool { return r.status == "delayed" })
	if row.plannedAt != at+3600 || row.result != "fail" {
		t.Errorf("%s: its run was cancelled", row)
	}
	mustJobctl(t, worker, "schedule", "pause", "3", "4")
	if got := mustJobctl(t, worker, "schedule"); strings.Count(got, "paused") != 2 {
		t.Errorf("schedule lists\n%s", got)
	}
	mustJobctl(t, worker, "schedule", "continue", "3")
	if row = s.row(3); row.runAt != at+3600 || row.plannedAt != at+3600 {
		t.Errorf("%s: its schedule was paused and continued", row)
	}
	mustJobctl(t, worker, "cancel", "--schedule", "3", "4")
	s.awaitStatus(3, "ignored")
	if row = s.awaitStatus(4, "ignored"); row.uniqueKey != "" {
		t.Errorf("%s: it was cancelled", row)
	}

	// A delayed row is not for run-manual; run-now makes it due.
	before := s.row(5)
	if output, err := jobctl(t, worker, "run-manual", "5"); err == nil || !strings.Contains(output, "delayed") {
		t.Errorf("run-manual of a delayed row: %v: %s", err, output)
	}
	if row = s.row(5); row != before {
		t.Errorf("a refused run-manual changed %s to %s", before, row)
	}
	s.oracle.LetGo(t)
	mustJobctl(t, worker, "run-now", "1", "5")
	if row = s.awaitStatus(5, "done"); row.plannedAt != before.runAt && row.plannedAt != 0 {
		t.Logf("planned_at of what was run now: %s", row)
	}
	row = s.await(1, "delayed behind what was run now", func(r timed) bool { return r.status == "delayed" && r.result == "ok" })
	if row.plannedAt != at+7200 || s.oracle.Starts(t, 1)[1].Planned != at+3600 {
		t.Errorf("%s, %s: want the run of %d to be done, and the next an hour later", row, s.oracle.Starts(t, 1), at+3600)
	}
	harness.VerifyJournal(t, settings)
}

// A job that fails is tried again, later each time, until it has used up its attempts. What says that
// its data are wrong is not, nor what was cancelled or ended by somebody's signal.
func TestAttempts(t *testing.T) {
	t.Parallel()
	s := newSite(t, `case $id in
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
		starts := s.oracle.Starts(t, want.id)
		if row.result != want.result || row.attempts != want.attempts || row.code != want.code && want.code >= 0 || int64(len(starts)) != want.attempts {
			t.Errorf("%s, started %s: want %+v", row, starts, want)
		}
		for i, begun := range starts {
			most := 4
			if want.id == 4 {
				most = 2
			}
			if begun.Attempt != i+1 || begun.Most != most || begun.Recovered != 0 || begun.Planned != starts[0].Planned && starts[0].Planned != 0 {
				t.Errorf("start %d is %s", i+1, begun)
			}
		}
	}
	// Four attempts, then the next planned time; and a retry that would come no sooner than the next planned time is none.
	row := s.await(5, "delayed behind four attempts", func(r timed) bool { return r.status == "delayed" && len(s.oracle.Starts(t, 5)) == 4 && r.attempts == 0 })
	if row.result != "fail" || row.plannedAt != at+3600 || row.runAt != row.plannedAt {
		t.Errorf("%s: want the next run an hour after %d", row, at)
	}
	for _, begun := range s.oracle.AwaitStarts(t, 3, 6) {
		check.Equal(t, begun.Attempt, 1, "%s overtakes the next planned time", begun)
	}
	expectBackoff(t, harness.Events(t, settings, journal.KindDone))
	harness.VerifyJournal(t, settings)
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
