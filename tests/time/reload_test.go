package time

import (
	"os"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/tests/harness"
)

// reload writes a worker's file anew, has it read, and waits until it is taken over.
func (s *site) reload(worker *harness.Daemon, settings harness.Settings) {
	s.t.Helper()
	if err := os.WriteFile(worker.Config, []byte(settings.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	before := len(events(s.t, settings, journal.KindReloaded))
	worker.Signal(s.t, syscall.SIGHUP)
	harness.Until(s.t, func() string {
		if len(events(s.t, settings, journal.KindReloaded)) == before {
			return "the file is not taken over yet"
		}
		return ""
	})
}

// What a target's section says about attempts, and what the file says about zones and missed runs, holds
// from the next decision on for rows that wait by then: they keep the time that they have. No start is
// needed, and nobody polls but where a row is inserted.
func TestTermsAreReadAgainWhileRowsWait(t *testing.T) {
	t.Parallel()
	s := newSite(t, `case $1 in 1|2|3) until [ -e $dir/fail ]; do sleep 0.2; done; exit 1;; esac`)
	settings := s.worker("w1", map[string]int{"a": 8, "b": 1}, harness.Terms("a", harness.Settings{"attempts": "1"}),
		harness.Settings{"time_zone": "UTC", "missed": "once"})
	at := s.now()
	s.insert(timed{id: 1, runAt: at}, timed{id: 2, runAt: at, maxAttempts: 1}, timed{id: 3, runAt: at, schedule: "every 24h"},
		timed{id: 4, target: "b", schedule: "daily 02:30"})
	worker := settings.StartWorker(t)
	for id := int64(1); id <= 3; id++ {
		s.oracle.await(t, id, 1)
		s.awaitStatus(id, "running")
	}
	planned := s.await(4, "planned", func(r timed) bool { return r.runAt > 0 }).runAt
	if got := time.Unix(planned, 0).UTC().Format("15:04"); got != "02:30" {
		t.Errorf("by UTC it is planned for %s", got)
	}

	settings = settings.With(harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1h"}), harness.Settings{"time_zone": "Asia/Kolkata"})
	s.reload(worker, settings)
	s.oracle.touch(t, "fail", "")
	if row := s.await(1, "to be tried again", func(r timed) bool { return r.result != "" }); row.status != "delayed" || row.attempts != 1 || row.runAt < at+2400 {
		t.Errorf("%s: want another attempt about an hour later, as the file says by now", row)
	}
	if row := s.awaitStatus(2, "done"); row.result != "fail" || row.attempts != 1 {
		t.Errorf("%s: its own column says how often", row)
	}
	if row := s.await(3, "to be tried again", func(r timed) bool { return r.result != "" }); row.status != "delayed" || row.attempts != 1 {
		t.Errorf("%s", row)
	}
	if row := s.row(4); row.runAt != planned {
		t.Errorf("%s: a row that waits keeps its time, which was %d", row, planned)
	}
	// A row that is planned from now on goes by the new zone, half an hour off every full one.
	s.insert(timed{id: 5, target: "b", schedule: "daily 02:30"})
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil)
	row := s.await(5, "planned", func(r timed) bool { return r.runAt > 0 })
	if got := time.Unix(row.runAt, 0).UTC().Format("15:04"); got != "21:00" {
		t.Errorf("%s: 02:30 in India is 21:00 UTC, not %s", row, got)
	}

	// The attempt that waits runs sooner than the new file says, at its own time, and is the last one, as the
	// file says by then.
	s.reload(worker, settings.With(harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1s"})))
	s.Exec(t, "UPDATE jobs SET run_at = UNIX_TIMESTAMP() + 1 WHERE id = 1")
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil)
	if row := s.awaitStatus(1, "done"); row.result != "fail" || row.attempts != 2 || len(s.oracle.starts(t, 1)) != 2 {
		t.Errorf("%s, started %s", row, s.oracle.starts(t, 1))
	}

	// A run that was missed is skipped, once the file says so.
	s.reload(worker, settings.With(harness.Settings{"missed": "skip"}))
	s.insert(timed{id: 6, target: "b", runAt: at - 7200, plannedAt: at - 7200, schedule: "every 1h"})
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil)
	row = s.await(6, "planned anew", func(r timed) bool { return r.runAt > s.now() })
	if n := len(s.oracle.starts(t, 6)); n != 0 {
		t.Errorf("%s was started %d times", row, n)
	}
	verifyJournal(t, settings)
}
