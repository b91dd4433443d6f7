package time

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the application's driver

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
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
	must.Get(verify.Audit(t.Context(), reader.Folder(), nil, nil))(t)
}

// wideTable is one whose columns can hold what makes no sense.
var wideTable = strings.NewReplacer(
	"`run_at` int(10) UNSIGNED", "`run_at` bigint UNSIGNED", "`planned_at` int(10) UNSIGNED", "`planned_at` bigint UNSIGNED",
	"`attempts` smallint UNSIGNED", "`attempts` smallint", "`max_attempts` smallint UNSIGNED", "`max_attempts` smallint",
).Replace(harness.TimesTable)

// Rows that say what can't be are ignored, and say why; all others run.
func TestRowsThatSayWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := &site{harness.NewDatabase(t, wideTable), t, newOracle(t, "")}
	at := s.now()
	cases := []struct {
		row  timed
		want []string // in stderr
	}{
		{timed{schedule: "every 0s"}, []string{"every 0s", "at least 1s"}},
		{timed{schedule: "daily"}, []string{"daily", "02:30"}},
		{timed{schedule: "daily 24:00"}, []string{"24:00", "00:00"}},
		{timed{schedule: "weekly fri-mon 01:00"}, []string{"fri-mon"}},
		{timed{schedule: "61 * * * *"}, []string{"61"}},
		{timed{schedule: "0 0 30 2 *"}, []string{"0 0 30 2 *"}},
		{timed{schedule: "@reboot"}, []string{"@reboot"}},
		{timed{schedule: "0 30 2 * * 1"}, []string{"0 30 2 * * 1", "five"}},
		{timed{schedule: "nonsense"}, []string{"nonsense"}},
		{timed{schedule: "daily 02:30", zone: "Mars/Olympus"}, []string{"Mars/Olympus"}},
		{timed{schedule: "daily 02:30", zone: "Local"}, []string{"Local"}},
		{timed{schedule: "daily 02:30", zone: "+02:00"}, []string{"+02:00"}},
		{timed{runAt: at * 1000}, []string{fmt.Sprint(at * 1000), fmt.Sprint(at), "milliseconds"}},
		{timed{runAt: 4102444800}, []string{"4102444800", "before the year 2100"}},
		{timed{runAt: at, plannedAt: at * 1000}, []string{"planned_at", "milliseconds"}},
		{timed{runAt: at, attempts: -1}, []string{"attempts = -1"}},
		{timed{runAt: at, maxAttempts: -3}, []string{"max_attempts = -3"}},
		{timed{status: "waiting", schedule: "daily"}, []string{"daily", "02:30"}},
		{timed{status: "waiting", attempts: -1}, []string{"attempts = -1"}},
	}
	for i := range cases {
		cases[i].row.id, cases[i].row.uniqueKey = int64(i+1), fmt.Sprint("key ", i)
		s.insert(cases[i].row)
	}
	good := int64(len(cases) + 1)
	s.insert(timed{id: good, runAt: at}, timed{id: good + 1, status: "waiting"})
	worker := s.worker("w1", map[string]int{"a": 1}).StartWorker(t)
	s.awaitStatus(good, "done")
	s.awaitStatus(good+1, "done")
	for _, c := range cases {
		row := s.awaitStatus(c.row.id, "ignored")
		for _, want := range c.want {
			check.Contains(t, row.stderr, want, "is not told in %s", row)
		}
		check.Equal(t, row.uniqueKey, "", "%s keeps its unique key", row)
		t.Logf("%s", row.stderr)
	}
	starts := s.oracle.starts(t)
	check.Equal(t, len(starts), 2, "started: %s", starts)
	idle(t, worker)

	// Somebody has to mend them: why tells the reason. Nothing sets them back together.
	check.Contains(t, mustJobctl(t, worker, "why", "10"), "Mars/Olympus", "why")
	if list := mustJobctl(t, worker, "retry", "--failed", "--dry-run"); strings.Contains(list, "daily") {
		t.Errorf("retry --failed would set back\n%s", list)
	}
}

// awaitCountGrowing waits until a condition holds for n rows; as long as there are more and more of them
// it has patience.
func (s *site) awaitCountGrowing(n int, where string) {
	s.t.Helper()
	for before := -1; before < n; {
		harness.Until(s.t, func() string {
			if got := s.Count(s.t, where); got > before {
				before = got
				return ""
			}
			return fmt.Sprintf("%d of %d rows: %s", before, n, where)
		})
	}
}

// awaitTime waits until the server's clock says a time.
func (s *site) awaitTime(at int64) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if now := s.now(); now < at {
			return fmt.Sprintf("it is %d, not %d", now, at)
		}
		return ""
	})
}

// The database is away over planned times. With missed = once the run that was missed is made up for,
// once, and knows for when it was planned; with skip it waits for the next time. Nothing is run for the others that
// have passed. What does not recur, and what is tried again, is never missed.
func TestDatabaseAwayOverPlannedTimes(t *testing.T) {
	t.Parallel()
	const period = 2
	for _, missed := range []string{"once", "skip"} {
		t.Run(missed, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, `[ $1 != 3 ]`)
			way := harness.NewLink(t, s.Addr)
			settings := s.worker("w1", map[string]int{"a": 4}, way.ToDatabase(), harness.Settings{"missed": missed},
				harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "2s"}))
			at := s.now()
			s.insert(timed{id: 1, runAt: at, schedule: fmt.Sprintf("every %ds", period)}, timed{id: 2, runAt: at + 4}, timed{id: 3, runAt: at})
			settings.StartWorker(t)
			s.await(3, "delayed for its second attempt", func(r timed) bool { return r.status == "delayed" && r.attempts == 1 })
			row := s.await(1, "delayed behind a run", func(r timed) bool { return r.status == "delayed" && r.result == "ok" })
			way.Away()
			if row = s.row(1); row.status != "delayed" {
				t.Skip("it was claimed in the moment in which the link was cut")
			}
			s.awaitTime(max(row.plannedAt+2*period+1, at+6))
			before := len(s.oracle.starts(t, 1))
			back := s.now()
			way.Back()
			starts := s.oracle.await(t, 1, before+3)
			if first := starts[before]; missed == "once" && first.planned != row.plannedAt || missed == "skip" && first.planned <= back {
				t.Errorf("away until %d over what was planned for %d, the first start is %s", back, row.plannedAt, first)
			}
			if second := starts[before+1]; second.planned <= back {
				t.Errorf("away until %d, the second start is %s, a backfill", back, second)
			}
			plans := events(t, settings, journal.KindPlanned)
			if (missed == "skip") != (len(plans) > 0) {
				t.Errorf("%d rows were planned anew in the journal: %v", len(plans), plans)
			}
			for _, e := range plans { // on a busy machine a run may be missed that came later
				if late := e.Time.Unix() - e.Payload.(journal.Planned).From.PlannedAt; late <= period {
					t.Errorf("planned anew, %d s late: %v", late, e)
				}
			}
			s.awaitStatus(2, "done")
			if row := s.awaitStatus(3, "done"); row.attempts != 2 {
				t.Errorf("%s: want both attempts", row)
			}
			s.expectSchedule(1)
			s.expectNotBefore()
			verifyJournal(t, settings)
		})
	}
}

// An application that wants one row of a kind at a time inserts the next one as soon as the former has
// ended: the unique key is held while the row waits, runs or is delayed, and no longer.
func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, `[ $1 != 2 ] || [ $JOBD_ATTEMPT = 2 ]`)
	worker := s.worker("w1", map[string]int{"a": 1}, harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1s"})).StartWorker(t)
	insert := func(id int64) error {
		_, err := s.Admin.ExecContext(t.Context(), "INSERT INTO jobs (id, target, time_created, status, run_at, unique_key) VALUES (?, 'a', UNIX_TIMESTAMP(), 'delayed', UNIX_TIMESTAMP(), 'nightly')", id)
		return err
	}
	jobs := int64(size(8, 100))
	for id := int64(1); id <= jobs; id++ {
		harness.Until(t, func() string {
			if err := insert(id); err != nil {
				return err.Error()
			}
			return ""
		})
		if insert(id+1000) == nil {
			row := s.row(id)
			must.Equal(t, row.status, "done", "a second row was inserted beside %s", row)
			s.Exec(t, "DELETE FROM jobs WHERE id = ?", id+1000)
		}
		poll(t, worker)
	}
	s.awaitAll(int(jobs))
	check.Equal(t, len(s.oracle.starts(t, 2)), 2, "job 2 was started … times: it fails once")
	if n := s.Count(t, "unique_key IS NOT NULL"); n > 0 {
		t.Errorf("%d rows keep their key", n)
	}
}

// Rows that are due in the same second are found by the timers of two workers, none before its time
// and none twice. Nobody polls, and nobody is told of them.
func TestManyRowsDueInOneSecond(t *testing.T) {
	t.Parallel()
	jobs := size(1000, 10_000)
	var s *site
	var one, two harness.Settings
	var due int64
	for ahead := size[int64](4, 15); ; ahead *= 2 {
		s = newSite(t, "")
		due = s.now() + ahead
		rows := make([]timed, jobs)
		for i := range rows {
			rows[i] = timed{id: int64(i + 1), runAt: due}
		}
		s.insert(rows...)
		one, two = s.worker("w1", map[string]int{"a": 8}), s.worker("w2", map[string]int{"a": 8})
		early := []*harness.Daemon{one.StartWorker(t), two.StartWorker(t)}
		if s.now() < due {
			break
		}
		for _, worker := range early { // on a busy machine the rows were due before the workers had started
			worker.Crash(t)
		}
	}
	s.awaitAll(jobs)
	s.expectOnce(jobs)
	for _, settings := range []harness.Settings{one, two} {
		claims := claimsOf(t, settings)
		for _, c := range claims {
			if c.at < due {
				t.Fatalf("%s claimed job %d at %d, and it was due at %d", settings["name"], c.job, c.at, due)
			}
		}
		if len(claims) == 0 {
			t.Errorf("%s had no part in it", settings["name"])
		}
	}
}

// awaitAll waits until so many rows are done; as long as there are more and more of them it has patience.
func (s *site) awaitAll(n int) {
	s.t.Helper()
	s.awaitCountGrowing(n, "status = 'done'")
}

// expectOnce checks that jobs 1 to n were started once each, and none else.
func (s *site) expectOnce(n int) {
	s.t.Helper()
	times := map[int64]int{}
	for _, begun := range s.oracle.starts(s.t) {
		if times[begun.id]++; times[begun.id] > 1 {
			s.t.Errorf("job %d was started %d times", begun.id, times[begun.id])
		}
	}
	check.Equal(s.t, len(times), n, "jobs were started")
}

// expectNotBefore checks that no row says that it was started before it was due. The machine's clock is
// the server's.
func (s *site) expectNotBefore() {
	s.t.Helper()
	for _, r := range s.rows("status = 'done' AND time_started < run_at") {
		s.t.Errorf("%s was started at %d", r, r.started)
	}
}

// claimed is a row of a claim, as the journal has it.
type claimed struct {
	job int64
	at  int64 // in seconds
}

// claimsOf reads what a worker claimed, in its order.
func claimsOf(t testing.TB, settings harness.Settings) (claims []claimed) {
	t.Helper()
	for _, e := range events(t, settings, journal.KindAccepted) {
		claims = append(claims, claimed{e.Job, e.Time.Unix()})
	}
	return claims
}

// events reads a worker's journal: the events of some kinds, or all.
func events(t testing.TB, settings harness.Settings, kinds ...journal.Kind) (found []journal.Event) {
	t.Helper()
	reader := must.Get(replay.Open(settings["journal_dir"]))(t)
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: kinds}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e)
	}
	return found
}
