package time

import (
	"fmt"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/tests/harness"
)

// A job that hangs gets SIGTERM when its time is over, with all that it has started, and SIGKILL if it
// does not heed that. It has failed, whatever its exit code; its row says why.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	s := newSite(t, `case $1 in
1) sleep 600 & echo $! > $dir/child; wait;;
2) trap '' TERM; sleep 600 & echo $! > $dir/stubborn; wait; wait; while :; do sleep 600; done;;
3) trap 'exit 0' TERM; sleep 600 & wait;;
4) trap 'echo begun' TERM; sleep 0.3;;
5) exec sleep 600;;
esac`)
	terms := harness.Terms("a", harness.Settings{"timeout": "3s", "kill_after": "1s"})
	settings := s.worker("w1", map[string]int{"a": 8}, terms)
	at := s.now()
	s.insert(timed{id: 1, status: "waiting"}, timed{id: 2, status: "waiting"}, timed{id: 3, status: "waiting"},
		timed{id: 4, status: "waiting", timeout: 600}, timed{id: 5, runAt: at, timeout: 2, schedule: "every 1h"})
	settings.StartWorker(t)
	for id := int64(1); id <= 3; id++ {
		row := s.awaitStatus(id, "done")
		if row.result != "fail" || !strings.Contains(row.stderr, "3 s") && !strings.Contains(row.stderr, "3s") {
			t.Errorf("%s: want a failure that tells of the timeout", row)
		}
		t.Logf("%s", row)
	}
	if row := s.awaitStatus(4, "done"); row.result != "ok" || row.stderr != "" {
		t.Errorf("%s: it ended in time", row)
	}
	row := s.await(5, "delayed behind its run", func(r timed) bool { return r.status == "delayed" && r.result != "" })
	if row.result != "fail" || row.plannedAt != at+3600 {
		t.Errorf("%s: want a failure, and the next run an hour later", row)
	}
	for _, begun := range s.oracle.starts(t) {
		limit := map[int64]int64{4: 600, 5: 2}[begun.id]
		if limit == 0 {
			limit = 3
		}
		// The row says when it was about to be started: on a busy machine that may be some time before.
		if started := s.row(begun.id).started; begun.deadline < started+limit || begun.deadline > started+limit+60 {
			t.Errorf("%s, started at %d with %d s", begun, started, limit)
		}
	}
	for _, name := range []string{"child", "stubborn"} {
		s.expectGone(name)
	}
	timeouts := map[int64]int64{}
	for _, e := range events(t, settings, journal.KindDone) {
		timeouts[e.Job] = e.Payload.(journal.Done).Timeout
	}
	if want := map[int64]int64{1: 3, 2: 3, 3: 3, 4: 0, 5: 2}; fmt.Sprint(timeouts) != fmt.Sprint(want) {
		t.Errorf("the journal has the timeouts %v, not %v", timeouts, want)
	}
}

// The limit holds while the worker is away: its runner sees to it.
func TestTimeoutWhileTheWorkerIsAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, `sleep 600 & echo $! > $dir/child; wait`)
	settings := s.worker("w1", map[string]int{"a": 1}, harness.Terms("a", harness.Settings{"timeout": "2s", "kill_after": "1s", "attempts": "2", "backoff": "1s"}))
	s.insert(timed{id: 1, status: "waiting"})
	worker := settings.StartWorker(t)
	harness.AwaitFile(t, s.oracle.dir+"/child")
	worker.Kill(t)
	s.expectGone("child")
	settings.StartWorker(t)
	row := s.awaitStatus(1, "done")
	if starts := s.oracle.starts(t); row.result != "fail" || row.attempts != 2 || len(starts) != 2 || starts[1].attempt != 2 {
		t.Errorf("%s, started %s: want a timeout, and then another", row, starts)
	}
	if !strings.Contains(row.stderr, "2 s") && !strings.Contains(row.stderr, "2s") {
		t.Errorf("%s does not tell of the timeout", row)
	}
}

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

// expectGone waits until the process is gone whose number a job has written to a file.
func (s *site) expectGone(name string) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if pid := s.pid(name); pid == 0 || alive(pid) {
			return fmt.Sprintf("%s, process %d, is there", name, pid)
		}
		return ""
	})
}
