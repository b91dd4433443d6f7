package time

import (
	"os/exec"
	"strings"
	"testing"

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
	s := newSite(t, `[ -e $dir/go ] || exec sleep 600`)
	settings := s.worker("w1", map[string]int{"a": 8}, harness.Terms("a", harness.Settings{"attempts": "4", "backoff": "1s"}))
	at := s.now()
	s.insert(timed{id: 1, runAt: at, schedule: "every 1h"}, timed{id: 2, runAt: at}, timed{id: 3, runAt: at, schedule: "every 1h"},
		timed{id: 4, runAt: at + 3600, schedule: "every 1h", uniqueKey: "four"}, timed{id: 5, runAt: at + 3600})
	worker := settings.StartWorker(t)
	for id := int64(1); id <= 3; id++ {
		s.oracle.await(t, id, 1)
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
	s.oracle.touch(t, "go", "")
	mustJobctl(t, worker, "run-now", "1", "5")
	if row = s.awaitStatus(5, "done"); row.plannedAt != before.runAt && row.plannedAt != 0 {
		t.Logf("planned_at of what was run now: %s", row)
	}
	row = s.await(1, "delayed behind what was run now", func(r timed) bool { return r.status == "delayed" && r.result == "ok" })
	if row.plannedAt != at+7200 || s.oracle.starts(t, 1)[1].planned != at+3600 {
		t.Errorf("%s, %s: want the run of %d to be done, and the next an hour later", row, s.oracle.starts(t, 1), at+3600)
	}
	verifyJournal(t, settings)
}
