package time

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The rows of a site on which workers are killed.
const (
	plain     = 1 // delayed
	recurs    = 2 // every second
	fails     = 3 // each of its three attempts
	recursBad = 4 // every second, and each run fails twice
	skipped   = 5 // its first claim plans it, and does not run it
	now       = 6 // waits, and recurs
)

// failing is a script by which jobs fail whose target says so.
const failing = `case $1 in 3|4) exit 1;; esac`

// comeBack is the terms by which failing jobs are tried three times, a second apart.
var comeBack = harness.Terms("a", harness.Settings{"attempts": "3", "backoff": "1s"})

// insertAll adds a row of each sort.
func (s *site) insertAll() {
	at := s.now()
	later := fmt.Sprintf("daily %02d:30", (at/3600+12)%24) // not while the test goes on, in no time zone that is used here
	s.insert(timed{id: plain, runAt: at + 1}, timed{id: recurs, runAt: at, schedule: "every 1s"}, timed{id: fails, runAt: at},
		timed{id: recursBad, runAt: at, schedule: "every 5s", maxAttempts: 2}, timed{id: skipped, schedule: later, zone: "Europe/Berlin"},
		timed{id: now, status: "waiting", schedule: "every 2s"})
}

// The worker is killed at each point of a run that comes back: claimed as it becomes due, run, failed,
// planned anew. No run is lost or doubled, and every schedule goes on.
func TestKilledAtEachPointOfARunThatComesBack(t *testing.T) {
	t.Parallel()
	points := []struct {
		name string
		most int // how often it is reached for certain
	}{
		{"claim-selected", 3},
		{"accepted-appended", 5},
		{"commit-sent", 3},
		{"commit-answered", 3},
		{"running-appended", 5},
		{"start-asking", 5},
		{"start-asked", 5},
		{"started", 5},
		{"started-appended", 5},
		{"exit-seen", 5},
		{"done-appended", 5},
		{"forgotten", 5},
		{"update-sent", 3},
		{"delayed-mirrored", 5},
		{"done-mirrored", 1},
		{"planned-appended", 1},
		{"checkpoint", 1},
	}
	for _, point := range points {
		t.Run(point.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, failing)
			settings := s.worker("w1", map[string]int{"a": 4}, comeBack)
			s.insertAll()
			if point.name == "checkpoint" { // that is when nothing has happened for a second
				s.Exec(t, "UPDATE jobs SET schedule = 'every 5s' WHERE schedule LIKE 'every %'")
			}
			for range size(1, 20) {
				harness.Arm(t, settings["journal_dir"], point.name, 1+rand.IntN(point.most))
				worker := harness.LaunchBinary(t, harness.Armed(t), settings.Write(t), settings.Addr())
				if worker.ExitCode(t) != -1 {
					t.Fatalf("it was not killed but ended by itself:\n%s", worker.Output())
				}
				if point.most == 1 && point.name != "checkpoint" {
					break // it is reached once
				}
			}
			harness.Disarm(t, settings["journal_dir"])
			settings.StartWorker(t)
			s.expectGoingOn(false, settings)
		})
	}
}

// Both the worker and its runner are killed, over and over: what ran is unknown. With on_crash = fail it
// is not tried again, with requeue it counts as an attempt; the schedule goes on either way.
func TestBothKilledAndTheScheduleGoesOn(t *testing.T) {
	t.Parallel()
	for _, crash := range []string{"fail", "requeue"} {
		t.Run(crash, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, `[ -e $dir/go ] || sleep 600; `+failing)
			settings := s.worker("w1", map[string]int{"a": 8}, comeBack, harness.Settings{"on_crash": crash})
			s.insertAll()
			for kill := range size(2, 10) {
				worker := settings.StartWorker(t)
				s.oracle.await(t, recurs, kill+1)
				if kill == 0 {
					s.oracle.await(t, fails, 1)
				}
				worker.Crash(t)
			}
			s.oracle.touch(t, "go", "")
			settings.StartWorker(t)
			s.expectGoingOn(true, settings)
			if crash == "fail" {
				if n := len(s.oracle.starts(t, fails)); n != 1 {
					t.Errorf("an unknown outcome was tried again: %s", s.oracle.starts(t, fails))
				}
			}
		})
	}
}

// expectGoingOn waits until all rows of insertAll have come as far as they do, and looks at what was
// started, and at the journals.
func (s *site) expectGoingOn(unknown bool, workers ...harness.Settings) {
	s.t.Helper()
	t := s.t
	s.awaitStatus(plain, "done")
	row := s.awaitStatus(fails, "done")
	for _, id := range []int64{recurs, recursBad, now} {
		s.oracle.await(t, id, len(s.oracle.starts(t, id))+size(2, 3))
		s.expectRuns(id, unknown)
	}
	s.await(skipped, "planned", func(r timed) bool { return r.status == "delayed" && r.runAt > s.now() && r.runAt == r.plannedAt })
	if n := len(s.oracle.starts(t, skipped)); n > 0 {
		t.Errorf("a row that was to be planned was run %d times", n)
	}
	if n := len(s.oracle.starts(t, plain)); n != 1 && !unknown || n > 3 {
		t.Errorf("a delayed row was run %d times", n)
	}
	if n := len(s.oracle.starts(t, fails)); row.result != "fail" || !unknown && (n != 3 || row.attempts != 3) {
		t.Errorf("%s was started %d times", row, n)
	}
	s.expectNotBefore()
	for _, settings := range workers {
		verifyJournal(t, settings)
	}
}

// expectSchedule checks that a row's runs have planned times that grow, on the schedule's grid, and that
// no attempt was started twice.
func (s *site) expectSchedule(id int64) {
	s.t.Helper()
	s.expectRuns(id, false)
}

// expectRuns is expectSchedule of jobs that may have been killed, and then before they left their
// mark: a start behind an unknown outcome may come behind an attempt that left none.
func (s *site) expectRuns(id int64, killed bool) {
	s.t.Helper()
	period := map[string]int64{"every 1s": 1, "every 2s": 2, "every 5s": 5}[s.row(id).schedule]
	var before start
	first := true
	for _, begun := range s.oracle.starts(s.t, id) {
		unmarked := killed && begun.recovered > 0
		switch {
		case first:
		case begun.planned == before.planned && (begun.attempt == before.attempt+1 || unmarked && begun.attempt > before.attempt):
		case begun.planned > before.planned && (begun.attempt <= 1 || unmarked) && (begun.planned-before.planned)%period == 0:
		default:
			s.t.Errorf("%s came behind %s, of %s", begun, before, s.row(id))
		}
		before, first = begun, false
	}
}

// verifyJournal reads a worker's journal from its beginning: sequence, chain and transitions.
func verifyJournal(t testing.TB, settings harness.Settings) {
	t.Helper()
	reader := must.Get(replay.Open(settings["journal_dir"]))(t)
	if _, err := verify.Audit(t.Context(), reader.Folder(), nil, nil); err != nil {
		t.Errorf("the journal does not verify: %v", err)
	}
}
